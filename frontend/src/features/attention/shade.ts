import { type MapData, statsOf } from '../../core/store/map_data';

/** The scale of the colours. On a linear scale, a probability among hundreds of keys is too small to see. */
export type Shade = 'row' | 'sqrt' | 'linear';

/** The numbers that the colours show: each number ÷ the largest of its row, or its square root. */
export function shaded(map: MapData, shade: Shade): MapData {
  if (shade === 'linear') return map;
  const values = new Float32Array(map.values.length);
  for (let row = 0; row < map.rows; row++) {
    const [start, end] = [row * map.cols, (row + 1) * map.cols];
    const largest = shade === 'row' ? largestOf(map.values.subarray(start, end)) : 1;
    for (let i = start; i < end; i++) {
      const value = map.values[i];
      values[i] = shade === 'row' ? value / largest : Math.sign(value) * Math.sqrt(Math.abs(value));
    }
  }
  return { ...map, values, stats: statsOf(values, map.present, map.cols) };
}

/** The largest finite absolute value of a row; 1 if the row has no finite number other than 0. */
export function largestOf(row: ArrayLike<number>): number {
  let largest = 0;
  for (let i = 0; i < row.length; i++) {
    const size = Math.abs(row[i]);
    if (size > largest && size < Infinity) largest = size;
  }
  return largest === 0 ? 1 : largest;
}

/** The legend's name for the numbers that the colours show. */
export function shadeName(quantity: string, shade: Shade): string {
  if (shade === 'linear') return quantity;
  return shade === 'row' ? `${quantity} ÷ the row's largest` : `square root of ${quantity}`;
}
