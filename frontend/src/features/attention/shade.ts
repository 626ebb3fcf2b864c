import { type MapData, statsOf } from '../../core/store/map_data';

/** How attention is coloured. A probability among hundreds of keys is too small to be seen as it is. */
export type Shade = 'row' | 'sqrt' | 'linear';

/** The numbers that the colours stand for: of each row the share of its largest, or square roots. */
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

/** The largest finite size of a row; 1 where it has none. */
export function largestOf(row: ArrayLike<number>): number {
  let largest = 0;
  for (let i = 0; i < row.length; i++) {
    const size = Math.abs(row[i]);
    if (size > largest && size < Infinity) largest = size;
  }
  return largest === 0 ? 1 : largest;
}

/** What the colours of a shade stand for, in the legend. */
export function shadeName(quantity: string, shade: Shade): string {
  if (shade === 'linear') return quantity;
  return shade === 'row' ? `${quantity} ÷ the row's largest` : `square root of ${quantity}`;
}
