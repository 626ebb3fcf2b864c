import { toFloats } from '../../protocol/numbers';
import type { TensorRecord } from '../../protocol/record';
import type { ViewQuery } from './frames';
import { rowNamed, type Scene, historyOf, tokensOfRow } from './scene';

/** The reduction of a row's tokens to one number. */
export type TokenSum = 'mean' | 'largest';

interface Kept {
  readonly of: string;
  readonly numbers: Float64Array;
}

// Each record is reduced only once, although every later curve contains it.
const kKept = new WeakMap<TensorRecord, Kept>();

/**
 * Reduces a record [rows, tokens, features] to one number for each row and feature, over the row's own
 * tokens. Undefined if the record has another shape, or a dtype that cannot be read.
 */
export function tokenSumsOf(
  query: Pick<ViewQuery, 'firstToken' | 'lengths'>,
  record: TensorRecord,
  sum: TokenSum,
): Float64Array | undefined {
  const of = `${sum}/${query.firstToken}/${query.lengths?.join() ?? ''}`;
  const kept = kKept.get(record);
  if (kept?.of === of) return kept.numbers;
  const values = toFloats(record);
  if (values === undefined || record.header.shape.length !== 3) return undefined;
  const [rows, length, features] = record.header.shape;
  const numbers = new Float64Array(rows * features).fill(Number.NaN);
  for (let row = 0; row < rows; row++) {
    const tokens = tokensOfRow(query, record.header.firstRow + row, query.firstToken, length);
    for (let feature = 0; feature < features && tokens > 0; feature++) {
      const first = row * length * features + feature;
      numbers[row * features + feature] = overTokens(values, first, features, tokens, sum);
    }
  }
  kKept.set(record, { of, numbers });
  return numbers;
}

function overTokens(
  values: ArrayLike<number>,
  first: number,
  stride: number,
  tokens: number,
  sum: TokenSum,
): number {
  let total = sum === 'mean' ? 0 : Number.NEGATIVE_INFINITY;
  for (let token = 0; token < tokens; token++) {
    const value = values[first + token * stride];
    // Both reductions keep NaN.
    total = sum === 'mean' ? total + value / tokens : Math.max(total, value);
  }
  return total;
}

/** The numbers of one batch row in one layer, one for each feature. */
export function rowSumsOf(
  { query }: Scene,
  parts: readonly TensorRecord[] | undefined,
  name: number,
  sum: TokenSum,
): Float64Array | undefined {
  const place = rowNamed(parts, 0, name);
  if (place === undefined) return undefined;
  const features = place.record.header.shape[2];
  const sums = tokenSumsOf(query, place.record, sum);
  return sums?.subarray(place.row * features, (place.row + 1) * features);
}

/** One line for each layer over the kept steps, for one feature of one batch row. */
export function sumsOverSteps(
  scene: Scene,
  layers: readonly number[],
  name: number,
  feature: number,
  sum: TokenSum,
): { readonly steps: readonly number[]; readonly values: readonly (readonly (number | null)[])[] } {
  const groups = historyOf(scene);
  return {
    steps: groups.map(({ step }) => step),
    values: layers.map((layer) =>
      groups.map(
        (group) => rowSumsOf(scene, group.layers.get(layer), name, sum)?.[feature] ?? null,
      ),
    ),
  };
}
