import { type Cells, zoomedCells } from '../../base/span';
import type { MapData } from '../../core/store/map_data';

/** The part of a map that is shown. */
export interface Window {
  readonly map: Pick<MapData, 'rows' | 'cols'>;
  readonly rows: Cells;
  readonly cols: Cells;
}

export const kKeyZoom = 0.7;
// An axis of so few cells is seen whole.
const kFewCells = 12;

/** The window `factor` times as large, about a place that is counted in cells of the whole map. */
export function zoomedBy(
  { map, rows, cols }: Window,
  factor: number,
  about: { readonly row: number; readonly col: number },
): readonly [Cells, Cells] {
  const newRows = map.rows <= kFewCells ? rows : zoomedCells(rows, map.rows, factor, about.row);
  return [newRows, zoomedCells(cols, map.cols, factor, about.col)];
}
