import { compressorName, dtypeName } from '../../protocol/record';
import {
  type AttentionFrame,
  kStatNames,
  type MapsFrame,
  type ProjectionFrame,
  type StatsFrame,
  type TopKFrame,
  type ViewFrame,
} from '../../core/store/frames';
import { type MapData, statsOf } from '../../core/store/map_data';

/** Two maps of one shape, and A − B. */
export interface MapPair {
  readonly a: MapData;
  readonly b: MapData;
  readonly difference: MapData;
}

/** A token whose best column is another one in B. */
export interface ChangedBest {
  readonly col: number;
  readonly a: { readonly id: number; readonly value: number };
  readonly b: { readonly id: number; readonly value: number };
}

interface Pair<F extends ViewFrame> {
  readonly kind: F['kind'];
  readonly a: F;
  readonly b: F;
  /** Layers of A or B; a layer that one of them lacks is missing in the other maps. */
  readonly layers: readonly number[];
  /** False: the columns stand for other tokens. Null: the tokens were not captured. */
  readonly sameTokens: boolean | null;
}

export interface MapsPair extends Pair<MapsFrame> {
  readonly layerMaps: MapPair;
  readonly tileMaps: MapPair;
}

export interface AttentionPair extends Pair<AttentionFrame> {
  readonly maps: MapPair;
}

export interface ProjectionPair extends Pair<ProjectionFrame> {
  readonly layerMaps: MapPair;
}

/** Tables with ten numbers for each of `layers`, NaN where a side has none. */
export interface StatsPair extends Pair<StatsFrame> {
  readonly tables: {
    readonly a: Float64Array;
    readonly b: Float64Array;
    readonly difference: Float64Array;
  };
}

export interface TopKPair extends Pair<TopKFrame> {
  readonly maps: MapPair;
  readonly changed: readonly ChangedBest[];
}

export type FramePair = MapsPair | AttentionPair | ProjectionPair | StatsPair | TopKPair;

export type Compared =
  { readonly pair: FramePair } | { readonly pair: null; readonly reason: string };

/** A − B of two frames, or why they cannot be compared. */
export function compareFrames(a: ViewFrame, b: ViewFrame): Compared {
  const reason = obstacle(a, b);
  if (reason !== undefined) return { pair: null, reason };
  const common = { layers: union(a.layers, b.layers), sameTokens: sameTokens(a, b) };
  if (a.kind === 'maps' && b.kind === 'maps') {
    const layerMaps = layerPair(a, b, common.layers);
    return {
      pair: { ...common, kind: 'maps', a, b, layerMaps, tileMaps: pairOf(a.tileMap, b.tileMap) },
    };
  }
  if (a.kind === 'projection' && b.kind === 'projection') {
    const layerMaps = layerPair(a, b, common.layers);
    return { pair: { ...common, kind: 'projection', a, b, layerMaps } };
  }
  if (a.kind === 'attention' && b.kind === 'attention') {
    return { pair: { ...common, kind: 'attention', a, b, maps: pairOf(a.map, b.map) } };
  }
  if (a.kind === 'topk' && b.kind === 'topk') {
    const maps = pairOf(a.map, b.map);
    return { pair: { ...common, kind: 'topk', a, b, maps, changed: changedBest(a, b) } };
  }
  if (a.kind === 'stats' && b.kind === 'stats') {
    return {
      pair: { ...common, kind: 'stats', a, b, tables: tablesOf(a, b, common.layers) },
    };
  }
  return { pair: null, reason: 'Records without numbers have no difference.' };
}

function obstacle(a: ViewFrame, b: ViewFrame): string | undefined {
  const [first, second] = [formName(a), formName(b)];
  if (a.kind !== b.kind || a.compressor !== b.compressor) {
    return `A holds ${first}, B ${second}: choose steps of the same compressor.`;
  }
  if (a.features !== b.features) {
    return `The point has ${a.features} columns in A and ${b.features} in B.`;
  }
  if (a.layer !== b.layer) {
    return `Layer ${a.layer} is the nearest that A holds, ${b.layer} that of B: choose a layer of both.`;
  }
  const [shapeA, shapeB] = [shapeOf(a), shapeOf(b)];
  if (shapeA !== shapeB) return `A is ${shapeA}, B ${shapeB}: only equal shapes have a difference.`;
  if (a.kind === 'attention' && b.kind === 'attention' && a.head !== b.head) {
    return `B has ${b.heads} heads, A ${a.heads}: choose a head of both.`;
  }
  return undefined;
}

function formName(frame: ViewFrame): string {
  return `${compressorName(frame.compressor)} as ${dtypeName(frame.dtype)}`;
}

/** What of the shape must be equal, for reading; layers may differ. */
function shapeOf(frame: ViewFrame): string {
  switch (frame.kind) {
    case 'maps':
      return `${frame.tiles} tiles × ${frame.tileMap.cols} tokens`;
    case 'attention':
      return `${frame.map.rows} queries × ${frame.map.cols} keys`;
    case 'projection':
      return `${frame.layerMap.cols} tokens`;
    case 'topk':
      return `${frame.map.rows} largest × ${frame.map.cols} tokens`;
    case 'layers':
    case 'over':
    case 'stats':
    case 'passed':
      return '';
  }
}

function sameTokens(a: ViewFrame, b: ViewFrame): boolean | null {
  const [first, second] = [a.tokens, b.tokens];
  if (first === null || second === null) return null;
  return first.length === second.length && first.every((id, i) => id === second[i]);
}

function union(a: readonly number[], b: readonly number[]): readonly number[] {
  return [...new Set([...a, ...b])].sort((first, second) => first - second);
}

function layerPair(
  a: MapsFrame | ProjectionFrame,
  b: MapsFrame | ProjectionFrame,
  layers: readonly number[],
): MapPair {
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

const kStats = kStatNames.length;

function tablesOf(a: StatsFrame, b: StatsFrame, layers: readonly number[]): StatsPair['tables'] {
  const of = (frame: StatsFrame): Float64Array => {
    const table = new Float64Array(layers.length * kStats).fill(Number.NaN);
    layers.forEach((layer, row) => {
      const from = frame.layers.indexOf(layer);
      if (from < 0) return;
      table.set(frame.table.subarray(from * kStats, (from + 1) * kStats), row * kStats);
    });
    return table;
  };
  const [first, second] = [of(a), of(b)];
  return { a: first, b: second, difference: first.map((value, i) => value - second[i]) };
}

function changedBest(a: TopKFrame, b: TopKFrame): readonly ChangedBest[] {
  const changed: ChangedBest[] = [];
  for (let col = 0; col < a.map.cols; col++) {
    if (a.ids[col] === b.ids[col]) continue;
    const best = (frame: TopKFrame): ChangedBest['a'] => ({
      id: frame.ids[col],
      value: frame.map.values[col],
    });
    changed.push({ col, a: best(a), b: best(b) });
  }
  return changed;
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
