import { boolean, isRecord, number, object, oneOf, optional, parse } from '../../base/schema';
import { defaultView, type ViewState } from './url_state';

export const kThemeChoices = ['auto', 'light', 'dark'] as const;
export type ThemeChoice = (typeof kThemeChoices)[number];

const kKey = 'tensor-tracer.preferences';

const preferencesSchema = object({
  smoothing: optional(number),
  logX: optional(boolean),
  logLoss: optional(boolean),
  logGrad: optional(boolean),
  logRate: optional(boolean),
  logSpeed: optional(boolean),
  events: optional(boolean),
  theme: optional(oneOf(...kThemeChoices)),
});
type Preferences = ReturnType<typeof preferencesSchema>;

const kRemembered = [
  'smoothing',
  'logX',
  'logLoss',
  'logGrad',
  'logRate',
  'logSpeed',
  'events',
] as const satisfies readonly (keyof ViewState)[];

type Place = 'localStorage' | 'sessionStorage';

/** The text that this browser or this tab stores under a key; null without one, or if storage is blocked. */
export function readStored(key: string, place: Place = 'localStorage'): string | null {
  try {
    return globalThis[place].getItem(key);
  } catch {
    return null;
  }
}

export function writeStored(key: string, value: string, place: Place = 'localStorage'): void {
  try {
    globalThis[place].setItem(key, value);
  } catch {
    // Storage is blocked or full: nothing is stored.
  }
}

/** The view for members that the address does not have. */
export function preferredView(): ViewState {
  const plain = defaultView();
  const view = pick(readPreferences());
  const { smoothing = plain.smoothing } = view;
  const isFit = smoothing >= 0 && smoothing <= 0.999;
  return { ...plain, ...view, smoothing: isFit ? smoothing : plain.smoothing };
}

export function preferredTheme(): ThemeChoice {
  return readPreferences().theme ?? 'auto';
}

/** Stores the members of a change that are preferences, for the next visit. */
export function rememberView(change: Partial<ViewState>): void {
  const kept = pick(change);
  if (Object.keys(kept).length > 0) remember(kept);
}

export function rememberTheme(theme: ThemeChoice): void {
  remember({ theme });
}

function pick(view: Partial<ViewState>): Partial<ViewState> {
  return Object.fromEntries(
    kRemembered.filter((name) => view[name] !== undefined).map((name) => [name, view[name]]),
  );
}

function remember(change: Preferences): void {
  writeStored(kKey, JSON.stringify({ ...readPreferences(), ...change }));
}

function readPreferences(): Preferences {
  try {
    const stored: unknown = JSON.parse(readStored(kKey) ?? '{}');
    return isRecord(stored) ? parse(preferencesSchema, stored) : {};
  } catch {
    return {};
  }
}
