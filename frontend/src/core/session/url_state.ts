import { kPhases } from '../../protocol/record';
import { type Span, spanOfText } from '../../base/span';
import type { Zoom } from '../../base/step_range';
import { type Clip, kClips } from '../store/map_data';
import { type Pin, pinOfText, pinText } from '../store/pin';
import { tabFacts } from './tabs';

/** The members of the view that several views use. */
interface CoreView {
  readonly tab: string;
  /** The name of the shown entry; '' means the first entry of the plan. */
  readonly point: string;
  readonly layer: number;
  readonly row: number;
  readonly phase: 'train' | 'eval';
  /** A past step, or null to follow the newest step. */
  readonly step: number | null;
  readonly smoothing: number;
  readonly logLoss: boolean;
  readonly logGrad: boolean;
  readonly clip: Clip;
  /** The locked ends of the scales; null if a scale is not locked. */
  readonly layerLock: number | null;
  readonly tileLock: number | null;
  readonly logX: boolean;
  readonly logRate: boolean;
  readonly logSpeed: boolean;
  /** Every time axis has marks for the events. */
  readonly events: boolean;
  /** The range of steps that the curves show; null means all steps. */
  readonly zoom: Zoom;
  /** The step of a held view: no newer step is shown; null if the view is not held. */
  readonly hold: number | null;
  /** The maps of tiles: one layer large, all layers, or a summary over the steps. */
  readonly layout: 'one' | 'all' | 'over';
  /** Whether small maps share one colour range, or each has its own. */
  readonly ranges: 'shared' | 'own';
  /** The shown part of the maps: the tokens of all maps, the rows of the large map, and the layers. */
  readonly mapCols: Span;
  readonly mapRows: Span;
  readonly layerRows: Span;
  /** The cell of a map whose values are shown beside it. */
  readonly pin: Pin | null;
}

/**
 * The complete view of a run, as in the page's address. A feature adds its members by declaration
 * merging, and registers their form in the address (`Feature.url`).
 */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- features fill it
export interface ViewState extends CoreView {}

/** The form of a member of the view in the address. */
export interface UrlMember<T> {
  /** The name in the query string. */
  readonly name: string;
  /** The default value, if the address does not have the member. */
  readonly otherwise: T;
  /** Parses the text; undefined for an invalid text. */
  readonly read: (text: string) => T | undefined;
  /** Writes the value; null leaves it out. Without `write`, the address has `String(value)`. */
  readonly write?: (value: T, view: ViewState) => string | null;
  /** A preference that the browser stores. A link may have it even if it has the default value. */
  readonly isPreference?: boolean;
  /** A text of any length. It is left out if the address has no room for it. */
  readonly isDraft?: boolean;
  /** The worker builds views with it: it is sent in the queries under the same name. */
  readonly isAsked?: boolean;
}

export type UrlMembers = { readonly [K in keyof ViewState]?: UrlMember<ViewState[K]> };

// The usual kinds of members.

/** One of the choices; the first one is the default. */
export function choiceMember<const T extends string>(
  name: string,
  choices: readonly [T, ...T[]],
): UrlMember<T> {
  const read = (text: string): T | undefined => choices.find((choice) => choice === text);
  return { name, otherwise: choices[0], read };
}

/** A whole number from `low` on. */
export function wholeMember<T extends number | null>(
  name: string,
  low: number,
  otherwise: T,
): UrlMember<number | T> {
  const fits = (text: string): boolean => /^\d{1,15}$/.test(text) && Number(text) >= low;
  return { name, otherwise, read: (text) => (fits(text) ? Number(text) : undefined) };
}

/** A finite number for which `fits` is true, or null. */
export function numberMember(
  name: string,
  fits: (value: number) => boolean = () => true,
): UrlMember<number | null> {
  return { name, otherwise: null, read: (text) => finiteOf(text, fits) };
}

export function textMember(name: string, most: number): UrlMember<string> {
  return { name, otherwise: '', read: (text) => text.slice(0, most) };
}

export function draftMember(name: string): UrlMember<string> {
  return { name, otherwise: '', read: (text) => text, isDraft: true };
}

export function flagMember(name: string, otherwise: boolean): UrlMember<boolean> {
  return {
    name,
    otherwise,
    read: (text) => (text === '1' || text === '0' ? text === '1' : undefined),
    write: (value) => (value ? '1' : '0'),
  };
}

/** The id of a recording; '' for the hub's own run. */
export function runMember(name: string): UrlMember<string> {
  const read = (text: string): string | undefined =>
    /^[0-9a-f]{16}$/.test(text) ? text : undefined;
  return { name, otherwise: '', read };
}

/** Cells of an axis, as "10-20": from the first number to before the second number. */
function spanMember(name: string): UrlMember<Span> {
  return { name, otherwise: null, read: spanOfText, write: (span) => span?.join('-') ?? null };
}

function finiteOf(text: string, fits: (value: number) => boolean): number | undefined {
  return text !== '' && Number.isFinite(Number(text)) && fits(Number(text))
    ? Number(text)
    : undefined;
}

const isPositive = (value: number): boolean => value > 0;

function preferred<T>(member: UrlMember<T>): UrlMember<T> {
  return { ...member, isPreference: true };
}

const kCore: { readonly [K in keyof CoreView]: UrlMember<CoreView[K]> } = {
  tab: {
    name: 'tab',
    otherwise: 'tensors',
    read: (text) => tabFacts().find(({ tab }) => tab === text)?.tab,
  },
  point: textMember('point', 200),
  layer: wholeMember('layer', 0, 1),
  row: wholeMember('row', 0, 0),
  phase: choiceMember('phase', kPhases),
  step: wholeMember('step', 1, null),
  smoothing: preferred({
    name: 'smooth',
    otherwise: 0.8,
    read: (text) => finiteOf(text, (value) => value >= 0 && value <= 0.999),
  }),
  logLoss: preferred(flagMember('logloss', false)),
  logGrad: preferred(flagMember('loggrad', false)),
  logX: preferred(flagMember('logx', false)),
  logRate: preferred(flagMember('loglr', false)),
  logSpeed: preferred(flagMember('logtps', false)),
  events: preferred(flagMember('events', true)),
  clip: choiceMember('clip', kClips),
  layerLock: numberMember('llock', isPositive),
  tileLock: numberMember('tlock', isPositive),
  zoom: {
    name: 'zoom',
    otherwise: null,
    read: zoomOf,
    write: (zoom) => zoom?.join('-') ?? null,
  },
  hold: wholeMember('hold', 0, null),
  layout: choiceMember('maps', ['one', 'all', 'over']),
  ranges: choiceMember('ranges', ['shared', 'own']),
  mapCols: spanMember('cols'),
  mapRows: spanMember('rows'),
  layerRows: spanMember('lrows'),
  pin: { name: 'pin', otherwise: null, read: pinOfText, write: (pin) => pin && pinText(pin) },
};

/** Parses a zoom such as "10.5-200". */
function zoomOf(text: string): Zoom | undefined {
  const parts = /^(\d{1,15}(?:\.\d{1,2})?)-(\d{1,15}(?:\.\d{1,2})?)$/.exec(text);
  if (parts === null) return undefined;
  const [low, high] = [Number(parts[1]), Number(parts[2])];
  return low < high ? [low, high] : undefined;
}

type AnyMember = UrlMember<unknown>;
const kMembers = new Map(Object.entries(kCore) as unknown as [keyof ViewState, AnyMember][]);

/** Adds the members of a feature before the page starts. */
export function registerUrlMembers(members: UrlMembers): void {
  for (const [key, member] of Object.entries(members)) {
    kMembers.set(key as keyof ViewState, member as unknown as AnyMember);
  }
}

function viewOf(value: (key: keyof ViewState, member: AnyMember) => unknown): ViewState {
  const pairs = [...kMembers].map(([key, member]) => [key, value(key, member)]);
  return Object.fromEntries(pairs) as ViewState;
}

/** The view of an address without a query string. */
export function defaultView(): ViewState {
  return viewOf((_, { otherwise }) => otherwise);
}

/** Reads a query string. Missing and invalid members have the values of `preferred`. */
export function parseViewState(search: string, preferred: ViewState = defaultView()): ViewState {
  const query = new URLSearchParams(search);
  return viewOf((key, { name, read }) => {
    const text = query.get(name);
    return (text === null ? undefined : read(text)) ?? preferred[key];
  });
}

/**
 * Writes the view as a query string with only the members that differ from the defaults. A preference
 * is left out only if its default is also the value in `preferred`; with null, it is always written.
 */
export function formatViewState(view: ViewState, preferred: ViewState | null): string {
  const query = new URLSearchParams();
  for (const [key, { name, otherwise, write, isPreference }] of kMembers) {
    const value = view[key];
    const isKnown = isPreference !== true || preferred?.[key] === otherwise;
    if (value === otherwise && isKnown) continue;
    if (!fitsAddress(view, key)) continue;
    const text = write === undefined ? plainText(value) : write(value, view);
    if (text !== null) query.set(name, text);
  }
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

/** The text of a member without `write`; its value is not an object. */
function plainText(value: unknown): string {
  return String(value);
}

/** The members that are sent in the queries. */
export function askedMembers(view: ViewState): Partial<ViewState> {
  const asked = [...kMembers].filter(([, { isAsked }]) => isAsked === true);
  return Object.fromEntries(asked.map(([key]) => [key, view[key]]));
}

/**
 * Whether the address has room for a draft in addition to the drafts before it: the hub reads 8 KiB of
 * a request with its headers. Members that are not drafts always fit.
 */
export function fitsAddress(view: ViewState, wanted: keyof ViewState): boolean {
  let room = kMaxDrafts;
  for (const [key, { name, isDraft }] of kMembers) {
    if (isDraft !== true) continue;
    const { length } = new URLSearchParams({ [name]: plainText(view[key]) }).toString();
    if (key === wanted) return length <= room;
    if (length <= room) room -= length;
  }
  return true;
}

/** The most characters of all drafts together, in the encoding of the address. */
export const kMaxDrafts = 6000;

export const kTooLong =
  'Too long for the address: a link does not contain it, and a reload loses it.';
