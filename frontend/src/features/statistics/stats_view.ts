import { type Floats, toFloats } from '../../protocol/numbers';
import type { TensorRecord } from '../../protocol/record';
import { firstDeparture } from './departure';
import type { History } from '../../core/store/frames';
import { type Departure, kStatNames, type Ridge, type StatsFrame } from './frame';
import type { StepGroup } from '../../core/store/ring_store';
import { baseOf, historyOf, type Scene } from '../../core/store/scene';
import { finite } from '../../core/store/series_store';
import { thinned } from '../../core/store/thinning';

const kStats = kStatNames.length;
const kBad = ['NaN', '+Inf', '−Inf'] as const;
// More rows than this would hide each other.
const kMaxRidges = 64;

/** Statistics of every layer, and how they moved; records of [10 + bins]. */
export function statsView(scene: Scene): StatsFrame | undefined {
  // Each micro-batch has its own statistics.
  const chosen = scene.parts[Math.min(scene.query.row, scene.parts.length - 1)];
  const numbers = statsOfRecord(chosen);
  if (numbers === undefined) return undefined;
  const base = baseOf(scene);
  const { microBatch } = chosen.header;
  const table = new Float64Array(base.layers.length * kStats).fill(Number.NaN);
  base.layers.forEach((layer, index) => {
    const of = statsOfRecord(partOf(scene.group.layers.get(layer), microBatch));
    if (of !== undefined) table.set(of.subarray(0, kStats), index * kStats);
  });
  const groups = historyOf(scene);
  const history = statsHistory(groups, base.layers, microBatch);
  return {
    ...base,
    kind: 'stats',
    rowNames: scene.parts.map(({ header }) => header.microBatch),
    rowKind: 'micro-batch',
    table,
    bins: Float64Array.from(numbers.subarray(kStats)),
    history,
    stepRidge: ridgeOf(
      ridgeGroups(scene, groups).map((group) => [group.step, group, scene.layer]),
      microBatch,
    ),
    layerRidge: ridgeOf(
      base.layers.map((layer) => [layer, scene.group, layer]),
      microBatch,
    ),
    departure: departureOf(history, base.layers),
  };
}

function ridgeGroups({ query }: Scene, groups: readonly StepGroup[]): readonly StepGroup[] {
  return thinned(groups, query.every, kMaxRidges).items;
}

/** One histogram of each row that has one. A row: its name, and where its numbers stand. */
function ridgeOf(
  rows: readonly (readonly [name: number, group: StepGroup, layer: number])[],
  microBatch: number,
): Ridge {
  const names: number[] = [];
  const bins: number[] = [];
  let size: number | undefined;
  for (const [name, group, layer] of rows) {
    const of = statsOfRecord(partOf(group.layers.get(layer), microBatch))?.subarray(kStats);
    size ??= of?.length;
    if (of === undefined || of.length === 0 || of.length !== size) continue;
    names.push(name);
    bins.push(...of);
  }
  return { names, bins: Float64Array.from(bins) };
}

function statsHistory(
  groups: readonly StepGroup[],
  layers: readonly number[],
  microBatch: number,
): History {
  const healths = groups.map((group) => healthOf(group, microBatch));
  const lineOf = (name: keyof Health): (number | null)[][] =>
    layers.map((layer) => healths.map((of) => of.get(layer)?.[name] ?? null));
  return {
    steps: groups.map(({ step }) => step),
    lines: Object.fromEntries(kLines.map((name) => [name, lineOf(name)])),
  };
}

function departureOf({ steps, lines }: History, layers: readonly number[]): Departure | null {
  const norm = lines.norm.map((line) => line.map(finite));
  return firstDeparture({ layers, steps, norm, bad: lines.bad });
}

const kLines = ['mean', 'std', 'norm', 'bad'] as const;

/** What the curves tell of a layer at one step. */
type Health = Readonly<Record<(typeof kLines)[number], number>>;

// A step is read again only when something of it has come or gone.
const kHealths = new WeakMap<StepGroup, { of: string; byLayer: ReadonlyMap<number, Health> }>();

function healthOf(group: StepGroup, microBatch: number): ReadonlyMap<number, Health> {
  const of = `${group.version}/${microBatch}`;
  const kept = kHealths.get(group);
  if (kept?.of === of) return kept.byLayer;
  const byLayer = new Map<number, Health>();
  for (const [layer, parts] of group.layers) {
    const numbers = statsOfRecord(partOf(parts, microBatch));
    if (numbers === undefined) continue;
    const [, mean, std, , , norm] = numbers;
    byLayer.set(layer, { mean, std, norm, bad: badOf(numbers) });
  }
  kHealths.set(group, { of, byLayer });
  return byLayer;
}

/** How many numbers are not finite. */
function badOf(numbers: Floats): number {
  return kBad.reduce((sum, name) => sum + numbers[kStatNames.indexOf(name)], 0);
}

function partOf(
  parts: readonly TensorRecord[] | undefined,
  microBatch: number,
): TensorRecord | undefined {
  return parts?.find(({ header }) => header.microBatch === microBatch);
}

function statsOfRecord(record: TensorRecord | undefined): Floats | undefined {
  if (record === undefined || record.header.shape.length !== 1) return undefined;
  const values = toFloats(record);
  return values === undefined || values.length < kStats ? undefined : values;
}
