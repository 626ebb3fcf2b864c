import { toFloats } from '../../protocol/numbers';
import type { TensorRecord } from '../../protocol/record';
import type { History } from '../../core/store/frames';
import type { ProjectionFrame } from './frame';
import { pinnedOf, tokenReader } from '../../core/store/pinned';
import { layersByTokens } from '../../core/store/token_maps';
import { historyOf, rowNamed, type Scene, tokenBaseOf, tokensOfRow } from '../../core/store/scene';

/** Projections on one vector, now and over the steps, from records of [rows, sequence, vectors]. */
export function projectionView(scene: Scene): ProjectionFrame | undefined {
  const { shape } = scene.parts[0].header;
  const [, sequence, vectors] = shape;
  const found = tokenBaseOf(scene, 0, sequence);
  if (shape.length !== 3 || found === undefined || vectors === 0) return undefined;
  if (toFloats(found.row.record) === undefined) return undefined;
  const { base, row, cols } = found;
  const vector = Math.min(scene.query.vector, vectors - 1);
  return {
    ...base,
    kind: 'projection',
    vectors,
    vector,
    layerMap: layersByTokens(
      scene,
      base.layers,
      row.name,
      cols,
      (values, at) => values[at + vector],
    ),
    history: projectionHistory(scene, base.layers, row.name, vector),
    pinned: pinnedOf(scene, base.layers, row, tokenReader(cols, vector)),
  };
}

function projectionHistory(
  scene: Scene,
  layers: readonly number[],
  name: number,
  vector: number,
): History {
  const groups = historyOf(scene);
  const last: (number | null)[][] = layers.map(() => []);
  const mean: (number | null)[][] = layers.map(() => []);
  for (const group of groups) {
    layers.forEach((layer, index) => {
      const row = rowNamed(group.layers.get(layer), 0, name);
      const of = row === undefined ? undefined : summaryOf(scene, row.record);
      const vectors = row?.record.header.shape[2] ?? 0;
      const at = 2 * ((row?.row ?? 0) * vectors + vector);
      last[index].push(of?.[at] ?? null);
      mean[index].push(of?.[at + 1] ?? null);
    });
  }
  return { steps: groups.map(({ step }) => step), lines: { last, mean } };
}

interface Summary {
  readonly of: string;
  readonly numbers: Float64Array;
}

// A record is summed only once, although every later history contains it.
const kSummaries = new WeakMap<TensorRecord, Summary>();

/** For each row and vector: the last token's projection, and the mean over the row's tokens. */
function summaryOf({ query }: Scene, record: TensorRecord): Float64Array | undefined {
  const of = `${query.firstToken}/${query.lengths?.join() ?? ''}`;
  const kept = kSummaries.get(record);
  if (kept?.of === of) return kept.numbers;
  const values = toFloats(record);
  if (values === undefined || record.header.shape.length !== 3) return undefined;
  const [rows, sequence, vectors] = record.header.shape;
  const numbers = new Float64Array(2 * rows * vectors).fill(Number.NaN);
  for (let row = 0; row < rows; row++) {
    const tokens = tokensOfRow(query, record.header.firstRow + row, query.firstToken, sequence);
    for (let vector = 0; vector < vectors && tokens > 0; vector++) {
      let sum = 0;
      let at = row * sequence * vectors + vector;
      for (let token = 0; token < tokens; token++, at += vectors) sum += values[at];
      numbers[2 * (row * vectors + vector)] = values[at - vectors];
      numbers[2 * (row * vectors + vector) + 1] = sum / tokens;
    }
  }
  kSummaries.set(record, { of, numbers });
  return numbers;
}
