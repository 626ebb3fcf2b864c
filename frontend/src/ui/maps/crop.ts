import type { Cells } from '../../base/span';
import type { MapData } from '../../core/store/map_data';

/** The shown part of a map, with the statistics of the whole map. */
export function cropped(map: MapData, rows: Cells, cols: Cells): MapData {
  const [height, width] = [rows[1] - rows[0], cols[1] - cols[0]];
  if (height === map.rows && width === map.cols) return map;
  const values = map.values.slice(0, height * width);
  const absent = map.absent === undefined ? undefined : new Uint8Array(height * width);
  for (let row = 0; row < height; row++) {
    const from = (rows[0] + row) * map.cols + cols[0];
    values.set(map.values.subarray(from, from + width), row * width);
    absent?.set(map.absent?.subarray(from, from + width) ?? [], row * width);
  }
  const present = map.present.slice(rows[0], rows[1]);
  return { rows: height, cols: width, values, present, absent, stats: map.stats };
}
