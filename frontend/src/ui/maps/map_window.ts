import { type Cells, zoomedCells } from '../../base/span';
import type { MapData } from '../../core/store/map_data';

/** The shown part of a map. */
export interface Window {
  readonly map: Pick<MapData, 'rows' | 'cols'>;
  readonly rows: Cells;
  readonly cols: Cells;
}

export const kKeyZoom = 0.7;
// Zooming does not change the rows of a map with at most this number of rows.
const kFewCells = 12;

/** Makes the window `factor` times as large around a position in cells of the whole map. */
export function zoomedBy(
  { map, rows, cols }: Window,
  factor: number,
  about: { readonly row: number; readonly col: number },
): readonly [Cells, Cells] {
  const newRows = map.rows <= kFewCells ? rows : zoomedCells(rows, map.rows, factor, about.row);
  return [newRows, zoomedCells(cols, map.cols, factor, about.col)];
}
