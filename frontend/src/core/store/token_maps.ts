import { type Floats, toFloats } from '../../protocol/numbers';
import { kF64 } from '../../protocol/record';
import { type MapData, statsOf } from './map_data';
import { rowNamed, type Scene } from './scene';

/** Reduces `length` numbers from `start` on, a line along the last dim of a record, to one number. */
export type Fold = (values: Floats, start: number, length: number) => number;

/** Reduces one batch row of every layer to one number for each token. */
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

/** Transposes `cols` lines of `size` numbers, from `start` on: each line becomes a column. */
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
