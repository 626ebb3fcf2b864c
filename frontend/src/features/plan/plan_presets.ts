import { featurePresets } from '../../core/registry/plan';
import type { PlanRow, Preset, PresetRun } from '../../core/registry/plan_feature';
import type { PlanEntry, PointFacts } from '../../protocol/messages';
import { rowsOf } from './plan_row';
import { formatDraft, parseDraft } from './plan_text';
import { compressorOf } from '../../core/session/watched';
import { formOfPlan, kindOfForm } from '../../core/store/compressors';
import { readStored, writeStored } from '../../core/session/preferences';

const kMaxEntries = 64;

/** The ready-made plans for this run. They trace only points that the run has. */
export function presetsOf(run: PresetRun): readonly Preset[] {
  return featurePresets(run)
    .filter(({ entries }) => entries.length > 0)
    .map((preset) => withTokens(run, preset));
}

/** Adds the token ids for entries that are shown by token, so that maps can name the tokens. */
function withTokens(run: PresetRun, preset: Preset): Preset {
  const [tokens] = run.points.filter(({ features }) => features === 0);
  const byToken = preset.entries.filter((entry) => isByToken(run, entry));
  const room = kMaxEntries - preset.entries.length;
  if (tokens === undefined || room < 1) {
    return { ...preset, entries: preset.entries.slice(0, kMaxEntries) };
  }
  const sets = new Set(byToken.map(({ prompts }) => prompts));
  const added = [...sets].map((prompts) => {
    const every = Math.min(
      ...byToken.filter((entry) => entry.prompts === prompts).map((entry) => entry.every ?? 1),
    );
    const when = every > 1 ? { every } : {};
    const which = prompts === undefined ? {} : { prompts, rows: 0 };
    return { point: tokens.name, ...which, ...when, compressor: { kind: 'none' } };
  });
  return { ...preset, entries: [...preset.entries, ...added.slice(0, room)] };
}

/** Whether the records of an entry are by token. */
function isByToken({ points }: PresetRun, entry: PlanEntry): boolean {
  const point = points.find(({ name }) => name === entry.point);
  const { kind } = compressorOf(entry, point);
  return point?.parameters === undefined && kindOfForm(formOfPlan(kind))?.isByToken === true;
}

/** A plan that the user keeps in this browser. */
export interface OwnPreset {
  readonly name: string;
  /** The text of the draft, as in the URL. */
  readonly draft: string;
}

const kStorageKey = 'tensor-tracer.presets';
const kMaxName = 60;

export function readOwnPresets(): readonly OwnPreset[] {
  try {
    const kept: unknown = JSON.parse(readStored(kStorageKey) ?? '[]');
    return Array.isArray(kept) ? kept.filter(isOwnPreset) : [];
  } catch {
    return [];
  }
}

/** The presets with one more. It replaces a preset of the same name. */
export function withOwnPreset(
  presets: readonly OwnPreset[],
  name: string,
  rows: readonly PlanRow[],
): readonly OwnPreset[] {
  const added = { name: name.trim().slice(0, kMaxName), draft: formatDraft(rows) };
  return [...presets.filter((each) => each.name !== added.name), added];
}

export function writeOwnPresets(presets: readonly OwnPreset[]): void {
  writeStored(kStorageKey, JSON.stringify(presets));
}

export function rowsOfPreset(
  preset: Preset | OwnPreset,
  points: readonly PointFacts[],
): readonly PlanRow[] {
  if ('draft' in preset) return parseDraft(preset.draft) ?? [];
  return rowsOf({ number: 0, entries: preset.entries }, points);
}

function isOwnPreset(kept: unknown): kept is OwnPreset {
  const preset = kept as Partial<OwnPreset> | null;
  return typeof preset?.name === 'string' && typeof preset.draft === 'string';
}
