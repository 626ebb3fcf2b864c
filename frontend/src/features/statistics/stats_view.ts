import { type Floats, toFloats } from '../../protocol/numbers';
import type { TensorRecord } from '../../protocol/record';
import { type Curve, kCurveNames, kCurves, rmsOf } from './statistic';
import { firstDeparture } from './departure';
import type { History } from '../../core/store/frames';
import { type Departure, kFirstNumbers, kStatNames, type Ridge, type StatsFrame } from './frame';
import type { StepGroup } from '../../core/store/ring_store';
import { baseOf, historyOf, type Scene } from '../../core/store/scene';
import { finite } from '../../core/store/series_store';
import { thinned } from '../../core/store/thinning';

const kStats = kStatNames.length;
const kNorm = kStatNames.indexOf('norm');
const kRms = kStatNames.indexOf('rms');
const kBad = ['NaN', '+Inf', '−Inf'] as const;
// More rows would hide each other.
const kMaxRidges = 64;

/** Statistics of every layer and their history, from records of [2, 10 + bins]. */
export function statsView(scene: Scene): StatsFrame | undefined {
  // Each micro-batch has its own statistics.
  const chosen = scene.parts[Math.min(scene.query.row, scene.parts.length - 1)];
  const read = statsOfRecord(chosen);
  if (read === undefined) return undefined;
  const base = baseOf(scene);
  const { microBatch } = chosen.header;
  const table = new Float64Array(base.layers.length * kStats).fill(Number.NaN);
  base.layers.forEach((layer, index) => {
    const of = statsOfRecord(partOf(scene.group.layers.get(layer), microBatch));
    if (of !== undefined) table.set(of.numbers, index * kStats);
  });
  const groups = historyOf(scene);
  const history = statsHistory(groups, base.layers, microBatch);
  return {
    ...base,
    kind: 'stats',
    rowNames: scene.parts.map(({ header }) => header.microBatch),
    rowKind: 'micro-batch',
    table,
    bins: Float64Array.from(read.bins),
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

/** The histogram of each row that has one. A row is a name, and the step and layer of its numbers. */
function ridgeOf(
  rows: readonly (readonly [name: number, group: StepGroup, layer: number])[],
  microBatch: number,
): Ridge {
  const names: number[] = [];
  const bins: number[] = [];
  let size: number | undefined;
  for (const [name, group, layer] of rows) {
    const of = statsOfRecord(partOf(group.layers.get(layer), microBatch))?.bins;
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
  const lineOf = (name: Curve): (number | null)[][] =>
    layers.map((layer) => healths.map((of) => of.get(layer)?.[name] ?? null));
  return {
    steps: groups.map(({ step }) => step),
    lines: Object.fromEntries(kCurveNames.map((name) => [name, lineOf(name)])),
  };
}

function departureOf({ steps, lines }: History, layers: readonly number[]): Departure | null {
  const rms = lines.rms.map((line) => line.map(finite));
  return firstDeparture({ layers, steps, rms, bad: lines.bad });
}

/** The numbers of the curves for one layer at one step. */
type Health = Readonly<Record<Curve, number>>;

// A step is read again only if one of its records was added or removed.
const kHealths = new WeakMap<StepGroup, { of: string; byLayer: ReadonlyMap<number, Health> }>();

function healthOf(group: StepGroup, microBatch: number): ReadonlyMap<number, Health> {
  const of = `${group.version}/${microBatch}`;
  const kept = kHealths.get(group);
  if (kept?.of === of) return kept.byLayer;
  const byLayer = new Map<number, Health>();
  for (const [layer, parts] of group.layers) {
    const read = statsOfRecord(partOf(parts, microBatch));
    if (read === undefined) continue;
    const numberOf = (name: Curve): number => read.numbers[kStatNames.indexOf(kCurves[name].of)];
    const numbers = Object.fromEntries(kCurveNames.map((name) => [name, numberOf(name)]));
    byLayer.set(layer, { ...(numbers as Health), bad: badOf(read.numbers) });
  }
  kHealths.set(group, { of, byLayer });
  return byLayer;
}

/** The count of numbers that are not finite. */
function badOf(numbers: Float64Array): number {
  return kBad.reduce((sum, name) => sum + numbers[kStatNames.indexOf(name)], 0);
}

function partOf(
  parts: readonly TensorRecord[] | undefined,
  microBatch: number,
): TensorRecord | undefined {
  return parts?.find(({ header }) => header.microBatch === microBatch);
}

interface Read {
  /** In the order of kStatNames; NaN if an earlier version did not send the number. */
  readonly numbers: Float64Array;
  readonly bins: Floats;
}

function statsOfRecord(record: TensorRecord | undefined): Read | undefined {
  const shape = record?.header.shape;
  if (record === undefined || shape === undefined || shape.length < 1 || shape.length > 2)
    return undefined;
  const width = shape[shape.length - 1];
  const values = toFloats(record);
  if (values === undefined || width < kFirstNumbers) return undefined;
  const numbers = new Float64Array(kStats).fill(Number.NaN);
  numbers.set(values.subarray(0, kFirstNumbers));
  const hasMore = shape.length === 2 && shape[0] > 1;
  if (hasMore) numbers.set(values.subarray(width, width + kStats - kFirstNumbers), kFirstNumbers);
  else numbers[kRms] = rmsOf(numbers[kNorm], numbers[0] - badOf(numbers));
  return { numbers, bins: values.subarray(kFirstNumbers, width) };
}
