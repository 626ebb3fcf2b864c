import { lowerBound } from '../../base/decimate';
import { type MapData, statsOf } from '../../core/store/map_data';

type Line = readonly (number | null)[];

/** Root mean square of `count` numbers; unlike the norm it does not grow with the tokens of a batch. */
export function rmsOf(norm: number, count: number): number {
  return count > 0 ? norm / Math.sqrt(count) : Number.NaN;
}

/** The step from which growth is counted: the first one kept from `since` on, else the last. */
export function baseStep(steps: readonly number[], since: number): number | null {
  if (steps.length === 0) return null;
  return steps[Math.min(lowerBound(steps, since), steps.length - 1)];
}

/** Each line in multiples of its value at a step. Null: nothing was captured there, or 0. */
export function growthOf(steps: readonly number[], lines: readonly Line[], from: number): Line[] {
  const at = steps.indexOf(from);
  return lines.map((line) => {
    const base = line[at] ?? null;
    return line.map((value) => {
      return value === null || base === null || base === 0 ? null : value / base;
    });
  });
}

/** Lines over the steps as a map, one row of each. */
export function mapOfLines(lines: readonly Line[], cols: number): MapData {
  const values = new Float64Array(lines.length * cols);
  const absent = new Uint8Array(values.length);
  lines.forEach((line, row) => {
    for (let col = 0; col < cols; col++) {
      const value = line[col] ?? null;
      if (value === null) absent[row * cols + col] = 1;
      else values[row * cols + col] = value;
    }
  });
  const held = values.filter((_, at) => absent[at] === 0);
  const stats = statsOf(held, new Uint8Array([1]), held.length);
  return { rows: lines.length, cols, values, present: new Uint8Array(lines.length).fill(1), absent, stats };
}

/** The rows of a table in the order of one column; '-' before its name: the largest first. */
export function sortedRows(
  rows: number,
  sort: string,
  valueOf: (row: number, column: string) => number,
): readonly number[] {
  const order = Array.from({ length: rows }, (_, row) => row);
  if (sort === '') return order;
  const [column, sign] = sort.startsWith('-') ? [sort.slice(1), -1] : [sort, 1];
  const key = (row: number): number => {
    const value = valueOf(row, column);
    return Number.isNaN(value) ? Infinity : sign * value;
  };
  return order.sort((a, b) => (key(a) === key(b) ? a - b : key(a) - key(b)));
}

/** What a click on a column's head asks for: the largest first, then the least, then by layer. */
export function nextSort(sort: string, column: string): string {
  if (sort === `-${column}`) return column;
  return sort === column ? '' : `-${column}`;
}
