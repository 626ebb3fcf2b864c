import type { ViewFrame } from './frames';
import { type MapData, statsOf } from './map_data';

/** Two maps of one shape, and A − B. */
export interface MapPair {
  readonly a: MapData;
  readonly b: MapData;
  readonly difference: MapData;
}

/** Two frames of one kind that can be compared. */
export interface PairBase<F extends ViewFrame = ViewFrame> {
  readonly kind: F['kind'];
  readonly a: F;
  readonly b: F;
  /** Layers of A or B; a layer that one of them lacks is missing in the other maps. */
  readonly layers: readonly number[];
  /** False: the columns stand for other tokens. Null: the tokens were not captured. */
  readonly sameTokens: boolean | null;
  /** What A and B are called; "A" and "B" if absent. */
  readonly names?: { readonly a: string; readonly b: string };
}

/** What A, B and their difference are called. */
export function namesOf({ names }: Pick<PairBase, 'names'>): {
  readonly a: string;
  readonly b: string;
  readonly difference: string;
} {
  const { a, b } = names ?? { a: 'A', b: 'B' };
  return { a, b, difference: `${a} − ${b}` };
}

/** Every pair by its kind: each feature adds its own where it declares them. */
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

/** The map with a row for each of `wanted`; those that it lacks are not present. */
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

/** Two maps of one shape with A − B, computed in float64; a row that one lacks is not present. */
export function pairOf(a: MapData, b: MapData): MapPair {
  const values = new Float64Array(a.rows * a.cols);
  const present = a.present.map((here, row) => here & b.present[row]);
  for (let i = 0; i < values.length; i++) values[i] = a.values[i] - b.values[i];
  const stats = statsOf(values, present, a.cols);
  return { a, b, difference: { rows: a.rows, cols: a.cols, values, present, stats } };
}

/** What both maps' legend tells: one scale for A and B. */
export function sharedStats({ a, b }: MapPair): MapData['stats'] {
  const [first, second] = [a.stats, b.stats];
  return {
    min: Math.min(first.min, second.min),
    max: Math.max(first.max, second.max),
    absMax: Math.max(first.absMax, second.absMax),
    abs99: Math.max(first.abs99, second.abs99),
    finite: first.finite + second.finite,
    nan: first.nan + second.nan,
    posInf: first.posInf + second.posInf,
    negInf: first.negInf + second.negInf,
  };
}
