import { type Floats, toFloats } from '../protocol/numbers';
import type { TensorRecord } from '../protocol/record';
import { type History, kStatNames, type StatsFrame } from './frames';
import { baseOf, finite, historyOf, type Scene } from './scene';

const kStats = kStatNames.length;
const kLines = ['mean', 'std', 'norm'] as const;

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
  return {
    ...base,
    kind: 'stats',
    rowNames: scene.parts.map(({ header }) => header.microBatch),
    rowKind: 'micro-batch',
    table,
    bins: Float64Array.from(numbers.subarray(kStats)),
    history: statsHistory(scene, base.layers, microBatch),
  };
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
  const steps = groups.map(({ step }) => step);
  return { steps, lines: Object.fromEntries(kLines.map((name) => [name, lineOf(name)])) };
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
