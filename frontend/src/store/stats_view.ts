import { type Floats, toFloats } from '../protocol/numbers';
import type { TensorRecord } from '../protocol/record';
import { firstDeparture } from './departure';
import { type History, kStatNames, type Ridge, type StatsFrame } from './frames';
import type { StepGroup } from './ring_store';
import { baseOf, finite, historyOf, type Scene } from './scene';

const kStats = kStatNames.length;
const kLines = ['mean', 'std', 'norm'] as const;
const kBad = ['NaN', '+Inf', '−Inf'] as const;
// More rows than this would hide each other.
const kMostRidges = 64;

/** Statistics of every layer, and how they moved; records of [10 + bins]. */
export function statsView(scene: Scene): StatsFrame | undefined {
  // Each micro-batch has statistics of its own.
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
  const history = statsHistory(scene, base.layers, microBatch);
  const { norm, bad } = history.lines;
  return {
    ...base,
    kind: 'stats',
    rowNames: scene.parts.map(({ header }) => header.microBatch),
    rowKind: 'micro-batch',
    table,
    bins: Float64Array.from(numbers.subarray(kStats)),
    history,
    stepRidge: ridgeOf(
      historyOf(scene, kMostRidges).map((group) => [group.step, group, scene.layer]),
      microBatch,
    ),
    layerRidge: ridgeOf(
      base.layers.map((layer) => [layer, scene.group, layer]),
      microBatch,
    ),
    departure: firstDeparture({ layers: base.layers, steps: history.steps, norm, bad }),
  };
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

function statsHistory(scene: Scene, layers: readonly number[], microBatch: number): History {
  const groups = historyOf(scene);
  const byLayer = layers.map((layer) =>
    groups.map((group) => statsOfRecord(partOf(group.layers.get(layer), microBatch))),
  );
  const lineOf = (name: (typeof kLines)[number]): (number | null)[][] => {
    const at = kStatNames.indexOf(name);
    return byLayer.map((line) => line.map((of) => finite(of?.[at])));
  };
  const bad = byLayer.map((line) => line.map(badOf));
  const steps = groups.map(({ step }) => step);
  const lines = Object.fromEntries(kLines.map((name) => [name, lineOf(name)]));
  return { steps, lines: { ...lines, bad } };
}

/** How many numbers are not finite. */
function badOf(numbers: Floats | undefined): number | null {
  if (numbers === undefined) return null;
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
