import {
  type Floats,
  kInputTokensFlag,
  type TensorRecord,
  toFloats,
  toIntegers,
} from '../protocol/record';
import { type MapData, statsOf } from './map_data';
import type { RingStore, StepGroup } from './ring_store';

/** What the page wants to see. `step` null follows the newest. */
export interface ViewQuery {
  readonly point: number;
  readonly entry: number;
  readonly phase: number;
  readonly layer: number;
  readonly row: number;
  readonly aggregate: 'mean' | 'absmax';
  readonly step: number | null;
}

/** Both heat maps of one step, ready to draw. */
export interface ViewFrame {
  readonly query: ViewQuery;
  readonly step: number;
  readonly plan: number;
  /** The layer of the tile map: the one asked for if it was captured, else the nearest. */
  readonly layer: number;
  readonly layers: readonly number[];
  readonly rows: number;
  readonly tiles: number;
  readonly features: number;
  readonly dtype: number;
  readonly compressor: number;
  /** Layers down, tokens across. */
  readonly layerMap: MapData;
  /** Tiles (or columns) down, tokens across, of one layer. */
  readonly tileMap: MapData;
  /** Token ids and positions of the batch row, where captured at this step. */
  readonly tokens: Int32Array | null;
  readonly positions: Int32Array | null;
  /** Steps that can be shown. */
  readonly steps: readonly number[];
}

/** Nothing to show, and why. */
export interface EmptyView {
  readonly query: ViewQuery;
  readonly reason: 'none' | 'unreadable';
  readonly dtype: number;
}

export type View = { readonly frame: ViewFrame } | { readonly empty: EmptyView };

/** Builds both maps for a query from what the store holds. */
export function buildView(store: RingStore, query: ViewQuery): View {
  const series = { ...query, direction: 0 };
  const steps = store.steps(series);
  const group =
    query.step === null
      ? store.newest(series, steps)
      : store.at(series, nearest(steps, query.step));
  if (group === undefined) return { empty: { query, reason: 'none', dtype: 0 } };
  return frameOf(store, query, group, steps);
}

function frameOf(store: RingStore, query: ViewQuery, group: StepGroup, steps: number[]): View {
  const captured = [...group.records.keys()].sort((a, b) => a - b);
  const layers = range(captured[0], captured[captured.length - 1]);
  const layer = nearest(captured, query.layer);
  const chosen = group.records.get(layer);
  const values = chosen === undefined ? undefined : toFloats(chosen);
  const unreadable = chosen?.header.dtype ?? 0;
  if (chosen === undefined || values === undefined || chosen.header.shape.length !== 3) {
    return { empty: { query, reason: 'unreadable', dtype: unreadable } };
  }
  const [rows, sequence, tiles] = chosen.header.shape;
  const row = Math.min(query.row, rows - 1);
  const tokens = tokensOf(store, query, group.step, row);
  const frame: ViewFrame = {
    query,
    step: group.step,
    plan: group.plan,
    layer,
    layers,
    rows,
    tiles,
    features: chosen.header.features,
    dtype: chosen.header.dtype,
    compressor: chosen.header.compressor,
    layerMap: layerMapOf(group, layers, row, sequence, query.aggregate),
    tileMap: tileMapOf(values, row, sequence, tiles),
    tokens: tokens?.ids ?? null,
    positions: tokens?.positions ?? null,
    steps,
  };
  return { frame };
}

function layerMapOf(
  group: StepGroup,
  layers: readonly number[],
  row: number,
  sequence: number,
  aggregate: ViewQuery['aggregate'],
): MapData {
  const out = new Float32Array(layers.length * sequence);
  const present = new Uint8Array(layers.length);
  layers.forEach((layer, index) => {
    const record = group.records.get(layer);
    const values = record === undefined ? undefined : toFloats(record);
    if (record === undefined || values === undefined) return;
    const [rows, length, tiles] = record.header.shape;
    if (length !== sequence || row >= rows) return;
    present[index] = 1;
    const fold = aggregate === 'mean' ? meanOf : absMaxOf;
    for (let token = 0; token < sequence; token++) {
      out[index * sequence + token] = fold(values, (row * sequence + token) * tiles, tiles);
    }
  });
  const stats = statsOf(out, present, sequence);
  return { rows: layers.length, cols: sequence, values: out, present, stats };
}

function meanOf(values: Floats, start: number, length: number): number {
  let sum = 0;
  for (let i = start; i < start + length; i++) sum += values[i];
  return sum / length;
}

/** Largest |x|; NaN if one of them is. */
function absMaxOf(values: Floats, start: number, length: number): number {
  let max = 0;
  for (let i = start; i < start + length; i++) {
    const magnitude = Math.abs(values[i]);
    if (!(magnitude <= max)) max = magnitude;
    if (magnitude !== magnitude) return magnitude;
  }
  return max;
}

function tileMapOf(values: Floats, row: number, sequence: number, tiles: number): MapData {
  const out =
    values instanceof Float64Array
      ? new Float64Array(tiles * sequence)
      : new Float32Array(tiles * sequence);
  const start = row * sequence * tiles;
  for (let token = 0; token < sequence; token++) {
    for (let tile = 0; tile < tiles; tile++) {
      out[tile * sequence + token] = values[start + token * tiles + tile];
    }
  }
  const present = new Uint8Array(tiles).fill(1);
  return {
    rows: tiles,
    cols: sequence,
    values: out,
    present,
    stats: statsOf(out, present, sequence),
  };
}

function tokensOf(
  store: RingStore,
  query: ViewQuery,
  step: number,
  row: number,
): { ids: Int32Array; positions: Int32Array } | undefined {
  const series = { point: kInputTokensFlag, entry: -1, phase: query.phase, direction: 0 };
  const record: TensorRecord | undefined = store.at(series, step)?.records.get(0);
  const values = record === undefined ? undefined : toIntegers(record);
  if (record === undefined || values === undefined || record.header.shape.length !== 3) {
    return undefined;
  }
  const [, rows, sequence] = record.header.shape;
  if (row >= rows) return undefined;
  const ids = values.slice(row * sequence, (row + 1) * sequence);
  const positions = values.slice((rows + row) * sequence, (rows + row + 1) * sequence);
  return { ids, positions };
}

function nearest(sorted: readonly number[], wanted: number): number {
  return sorted.reduce(
    (best, each) => (Math.abs(each - wanted) < Math.abs(best - wanted) ? each : best),
    sorted[0] ?? 0,
  );
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}
