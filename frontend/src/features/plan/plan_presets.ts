import { activePrompts, type PlanEntry, type PointFacts, type RunFacts } from '../../protocol/messages';
import { formatLayers } from '../../protocol/layers';
import { type PlanRow, rowsOf } from './plan_row';
import { formatDraft, parseDraft } from './plan_text';
import { readStored, writeStored } from '../../core/session/preferences';

/** A plan to begin with. */
export interface Preset {
  readonly name: string;
  readonly text: string;
  readonly entries: readonly PlanEntry[];
}

type Shape = Pick<RunFacts, 'points' | 'prompt_sets' | 'vectors'>;

const kMaxEntries = 64;
const kMaxVectors = 32;
const kSeedPoints = ['QKV', 'MLP1', 'MLP2'];
const kSlow = 10;

/** What can be traced of this run without much thought; nothing that it does not have. */
export function presetsOf(run: Shape): readonly Preset[] {
  return [...presetsOfEveryRun(run), ...presetsOfSome(run)]
    .filter(({ entries }) => entries.length > 0)
    .map((preset) => withTokens(run, preset));
}

function presetsOfEveryRun(run: Shape): readonly Preset[] {
  return [
    {
      name: 'Overview',
      text: 'Hidden states of all layers, 64 tiles',
      entries: tilesOf(run, ['HiddenStates'], 64, 'f32'),
    },
    {
      name: 'Seed set',
      text: 'QKV, MLP1 and MLP2, 96 tiles, bf16',
      entries: tilesOf(run, kSeedPoints, 96, 'bf16'),
    },
    {
      name: 'Statistics of everything',
      text: `All points, histogram and moments, every ${kSlow} steps`,
      entries: withFeatures(run).map(({ name }) => statsOf(name)),
    },
    {
      name: 'Gradients: norms',
      text: `Statistics of every gradient, every ${kSlow} steps`,
      entries: withFeatures(run)
        .filter((point) => point.gradient_placement !== undefined)
        .map(({ name }) => ({ ...statsOf(name), direction: 'gradient' as const })),
    },
    attentionOf(run),
  ];
}

/** What needs an output layer, vectors or prompts. */
function presetsOfSome(run: Shape): readonly Preset[] {
  return [
    {
      name: 'Predictions',
      text: 'The ten best next tokens of each position',
      entries: pointsOf(run, ['Logits']).map((point) => ({
        point: point.name,
        compressor: { kind: 'topk', k: Math.min(10, point.features) },
      })),
    },
    {
      name: 'Persona vectors',
      text: "Hidden states on every vector: the run's data and its prompts",
      entries: projectionsOf(run),
    },
    {
      name: 'Prompts',
      text: 'Hidden states of every prompt set, all prompts',
      entries: activePrompts(run).flatMap(({ name: prompts }) =>
        tilesOf(run, ['HiddenStates'], 64, 'f32').map((entry) => ({ ...entry, prompts, rows: 0 })),
      ),
    },
  ];
}

function pointsOf(run: Shape, names: readonly string[]): readonly PointFacts[] {
  return names.flatMap((name) => run.points.filter((point) => point.name === name));
}

function withFeatures(run: Shape): readonly PointFacts[] {
  return run.points.filter(({ features }) => features > 0);
}

function tilesOf(
  run: Shape,
  names: readonly string[],
  tiles: number,
  dtype: string,
): readonly PlanEntry[] {
  return pointsOf(run, names).map((point) => ({
    point: point.name,
    compressor: { kind: 'tile', tiles: Math.min(tiles, point.features) },
    dtype,
  }));
}

function statsOf(point: string): PlanEntry {
  return { point, every: kSlow, compressor: { kind: 'stats' } };
}

/** Of the layer in the middle: all layers would be many bytes. */
function attentionOf(run: Shape): Preset {
  const [point] = pointsOf(run, ['RawAttentionScore']);
  const layer = point === undefined ? 0 : Math.ceil((point.first_layer + point.last_layer) / 2);
  const entry = { point: 'RawAttentionScore', every: kSlow, dtype: 'u8' };
  return {
    name: 'Attention of one layer',
    text: `All heads of layer ${layer}, in 8 bits, every ${kSlow} steps`,
    entries:
      point === undefined
        ? []
        : [{ ...entry, layers: formatLayers([layer]), compressor: { kind: 'none' } }],
  };
}

function projectionsOf(run: Shape): readonly PlanEntry[] {
  if (run.vectors.length === 0) return [];
  const compressor = { kind: 'projection', vectors: run.vectors.slice(0, kMaxVectors) };
  const data = pointsOf(run, ['HiddenStates']).map(({ name: point }) => ({ point, compressor }));
  const sets = activePrompts(run).flatMap(({ name: prompts }) =>
    data.map((entry) => ({ ...entry, prompts, rows: 0 })),
  );
  return [...data, ...sets];
}

/** With the token ids of whatever is shown by token, so that maps can name the tokens. */
function withTokens(run: Shape, preset: Preset): Preset {
  const [tokens] = run.points.filter(({ features }) => features === 0);
  const byToken = preset.entries.filter(({ compressor }) => compressor?.kind !== 'stats');
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

/** A plan that the user keeps in this browser. */
export interface OwnPreset {
  readonly name: string;
  /** As in the address. */
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

/** Those with one more, which takes the place of one of that name. */
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
