import type { MapData } from '../store/map_data';
import type { Lut } from './lut';

/** The values at the two ends of the colours. */
export interface Scale {
  readonly low: number;
  readonly high: number;
}

/** Paints one word per cell into `out` (row by row); returns how many finite cells were clipped. */
export function paintCells(map: MapData, scale: Scale, lut: Lut, out: Uint32Array): number {
  const { values, cols, present } = map;
  const { colors } = lut;
  const { low, high } = scale;
  const factor = high > low ? 255 / (high - low) : 0;
  let clipped = 0;
  for (let row = 0; row < map.rows; row++) {
    const end = (row + 1) * cols;
    if (present[row] === 0) {
      out.fill(lut.missing, row * cols, end);
      continue;
    }
    for (let i = row * cols; i < end; i++) {
      const value = values[i];
      if (value >= low && value <= high) {
        out[i] = colors[((value - low) * factor + 0.5) | 0];
      } else if (value !== value) {
        out[i] = lut.nan;
      } else if (value === Number.POSITIVE_INFINITY) {
        out[i] = lut.posInf;
      } else if (value === Number.NEGATIVE_INFINITY) {
        out[i] = lut.negInf;
      } else {
        out[i] = value > high ? lut.over : lut.under;
        clipped += 1;
      }
    }
  }
  return clipped;
}

/**
 * Folds a map to at most `rows` × `cols` cells so that nothing notable is lost: each cell shows
 * the NaN, the Inf or the value farthest from 0 of those that it stands for.
 */
export function foldExtremes(map: MapData, rows: number, cols: number): MapData {
  const outRows = Math.max(1, Math.min(rows, map.rows));
  const outCols = Math.max(1, Math.min(cols, map.cols));
  if (outRows === map.rows && outCols === map.cols) return map;
  const values = new Float64Array(outRows * outCols);
  const present = new Uint8Array(outRows);
  const columns = Uint32Array.from({ length: map.cols }, (_, c) =>
    Math.floor((c * outCols) / map.cols),
  );
  for (let row = 0; row < map.rows; row++) {
    if (map.present[row] === 0) continue;
    const outRow = Math.floor((row * outRows) / map.rows);
    present[outRow] = 1;
    for (let col = 0; col < map.cols; col++) {
      const value = map.values[row * map.cols + col];
      const at = outRow * outCols + columns[col];
      const held = values[at];
      if (held === held && !(Math.abs(value) <= Math.abs(held))) values[at] = value;
    }
  }
  return { rows: outRows, cols: outCols, values, present, stats: map.stats };
}

/** The scale for a map: symmetric about 0 where the kind is diverging, from 0 where it is not. */
export function scaleFor(
  map: MapData,
  kind: 'diverging' | 'sequential',
  clip99: boolean,
  locked: number | null,
): Scale {
  const limit = locked ?? (clip99 ? map.stats.abs99 : map.stats.absMax);
  const high = limit > 0 ? limit : 1;
  return { low: kind === 'diverging' ? -high : 0, high };
}
