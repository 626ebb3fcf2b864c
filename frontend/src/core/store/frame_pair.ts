import type { ViewFrame } from './frames';
import { type MapData, statsOf } from './map_data';

/** Two maps of the same shape, and A − B. */
export interface MapPair {
  readonly a: MapData;
  readonly b: MapData;
  readonly difference: MapData;
}

/** Two comparable frames of one kind. */
export interface PairBase<F extends ViewFrame = ViewFrame> {
  readonly kind: F['kind'];
  readonly a: F;
  readonly b: F;
  /** The layers of A and of B. If one frame lacks a layer, this layer is missing in its map. */
  readonly layers: readonly number[];
  /** False if the columns are different tokens; null if the tokens were not captured. */
  readonly sameTokens: boolean | null;
  /** The names of A and B; "A" and "B" if absent. */
  readonly names?: { readonly a: string; readonly b: string };
}

/** The names of A, B and their difference. */
export function namesOf({ names }: Pick<PairBase, 'names'>): {
  readonly a: string;
  readonly b: string;
  readonly difference: string;
} {
  const { a, b } = names ?? { a: 'A', b: 'B' };
  return { a, b, difference: `${a} − ${b}` };
}

/** All pairs by kind. Each feature adds its pairs by declaration merging. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- features fill it
export interface FramePairs {}

export type FramePair = FramePairs[keyof FramePairs];

interface Layered {
  readonly layerMap: MapData;
  readonly layers: readonly number[];
}

/** The layer maps of two frames, with a row for each of `layers`. */
export function layerPair(a: Layered, b: Layered, layers: readonly number[]): MapPair {
  return pairOf(ofLayers(a.layerMap, a.layers, layers), ofLayers(b.layerMap, b.layers, layers));
}

/** The map with a row for each of `wanted`. Rows of missing layers are not present. */
export function ofLayers(
  map: MapData,
  layers: readonly number[],
  wanted: readonly number[],
): MapData {
  if (layers.length === wanted.length && layers.every((layer, i) => layer === wanted[i])) {
    return map;
  }
  const { cols } = map;
  const values = new Float64Array(wanted.length * cols);
  const present = new Uint8Array(wanted.length);
  wanted.forEach((layer, row) => {
    const from = layers.indexOf(layer);
    if (from < 0 || map.present[from] === 0) return;
    present[row] = 1;
    values.set(map.values.subarray(from * cols, (from + 1) * cols), row * cols);
  });
  return { rows: wanted.length, cols, values, present, stats: map.stats };
}

/**
 * Two maps of the same shape with A − B, computed in float64. A row that one map lacks is not present
 * in the difference.
 */
export function pairOf(a: MapData, b: MapData): MapPair {
  const values = new Float64Array(a.rows * a.cols);
  const present = a.present.map((here, row) => here & b.present[row]);
  for (let i = 0; i < values.length; i++) values[i] = a.values[i] - b.values[i];
  const stats = statsOf(values, present, a.cols);
  return { a, b, difference: { rows: a.rows, cols: a.cols, values, present, stats } };
}
