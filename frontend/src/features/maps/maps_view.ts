import { type Floats, linesToFloats, toFloats } from '../../protocol/numbers';
import type { MapsFrame } from './frame';
import { type CellReader, pinnedOf } from '../../core/store/pinned';
import { type Scene, tokenBaseOf } from '../../core/store/scene';
import { type Fold, layersByTokens, tileMapOf } from '../../core/store/token_maps';

/** Layers × tokens, and tiles × tokens of one layer, from records of [rows, sequence, tiles]. */
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

/** Reads one number of a token: the number of a tile, or the summary of all tiles. */
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

function meanOf(values: Floats, start: number, length: number): number {
  let sum = 0;
  for (let i = start; i < start + length; i++) sum += values[i];
  return sum / length;
}

/** The largest |x|; NaN if one number is NaN. */
function absMaxOf(values: Floats, start: number, length: number): number {
  let max = 0;
  for (let i = start; i < start + length; i++) {
    const magnitude = Math.abs(values[i]);
    if (!(magnitude <= max)) max = magnitude;
    if (magnitude !== magnitude) return magnitude;
  }
  return max;
}
