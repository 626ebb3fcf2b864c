import { type Floats, linesToFloats, toFloats } from '../../protocol/numbers';
import type { MapsFrame } from '../../core/store/frames';
import { type MapData, statsOf } from '../../core/store/map_data';
import { type CellReader, pinnedOf } from '../../core/store/pinned';
import { kF64 } from '../../protocol/record';
import { rowNamed, type Scene, tokenBaseOf } from '../../core/store/scene';

/** Layers × tokens and, of one layer, tiles × tokens; records of [rows, sequence, tiles]. */
export function mapsView(scene: Scene): MapsFrame | undefined {
  const [record] = scene.parts;
  const values = toFloats(record);
  if (values === undefined || record.header.shape.length !== 3) return undefined;
  const [, sequence] = record.header.shape;
  const found = tokenBaseOf(scene, 0, sequence);
  if (found === undefined) return undefined;
  const { base, row, cols } = found;
  const tiles = row.record.header.shape[2];
  const shown = row.record === record ? values : toFloats(row.record);
  if (shown === undefined) return undefined;
  const fold = scene.query.aggregate === 'mean' ? meanOf : absMaxOf;
  return {
    ...base,
    kind: 'maps',
    tiles,
    layerMap: layersByTokens(scene, base.layers, row.name, cols, fold),
    tileMap: tileMapOf(shown, row.row * sequence * tiles, cols, tiles),
    pinned: pinnedOf(scene, base.layers, row, readerOf(cols, fold)),
  };
}

/** One number of a token: of a tile, or the summary of all tiles. */
function readerOf(columns: number, fold: Fold): CellReader {
  return {
    dim: 0,
    columns,
    read: (record, row, { col, cell }) => {
      const [, sequence, tiles] = record.header.shape;
      if (col >= sequence) return undefined;
      const values = linesToFloats(record, row * sequence + col, 1);
      if (values === undefined) return undefined;
      return cell === null ? fold(values, 0, tiles) : values[cell];
    },
  };
}

/** What becomes of the last dim of a record, from `start` on. */
export type Fold = (values: Floats, start: number, length: number) => number;

/** Folds one batch row of every layer to one number per token. */
export function layersByTokens(
  { group }: Scene,
  layers: readonly number[],
  name: number,
  cols: number,
  fold: Fold,
): MapData {
  const size = layers.length * cols;
  const out = isDouble(group, layers) ? new Float64Array(size) : new Float32Array(size);
  const present = new Uint8Array(layers.length);
  layers.forEach((layer, index) => {
    const place = rowNamed(group.layers.get(layer), 0, name);
    const values = place === undefined ? undefined : toFloats(place.record);
    if (place === undefined || values === undefined) return;
    const { shape } = place.record.header;
    const [, length, size] = shape;
    if (shape.length !== 3 || length < cols) return;
    present[index] = 1;
    for (let token = 0; token < cols; token++) {
      out[index * cols + token] = fold(values, (place.row * length + token) * size, size);
    }
  });
  return {
    rows: layers.length,
    cols,
    values: out,
    present,
    stats: statsOf(out, present, cols),
  };
}

function isDouble(group: Scene['group'], layers: readonly number[]): boolean {
  return layers.some((layer) => group.layers.get(layer)?.[0]?.header.dtype === kF64);
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

/** Turns `cols` lines of `size` numbers from `start` on to numbers down, lines across. */
export function tileMapOf(values: Floats, start: number, cols: number, size: number): MapData {
  const out =
    values instanceof Float64Array ? new Float64Array(size * cols) : new Float32Array(size * cols);
  for (let token = 0; token < cols; token++) {
    for (let tile = 0; tile < size; tile++) {
      out[tile * cols + token] = values[start + token * size + tile];
    }
  }
  const present = new Uint8Array(size).fill(1);
  return { rows: size, cols, values: out, present, stats: statsOf(out, present, cols) };
}
