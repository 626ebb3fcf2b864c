import { lowerBound } from '../../base/decimate';
import { type MapData, statsOf } from '../../core/store/map_data';
import type { StatName } from './frame';

type Line = readonly (number | null)[];

/** The curves: the number of each layer that a curve shows, and its title. */
export const kCurves = {
  rms: { of: 'rms', title: 'Root mean square' },
  mean: { of: 'mean', title: 'Mean' },
  std: { of: 'std', title: 'Standard deviation' },
  min: { of: 'min', title: 'Smallest number' },
  max: { of: 'max', title: 'Largest number' },
  zeros: { of: 'zeros', title: 'Zeros' },
  kurtosis: { of: 'kurtosis', title: 'Kurtosis' },
  row_norm_min: { of: 'row norm, smallest', title: 'Norm of a row, smallest of the rows' },
  row_norm_mean: { of: 'row norm, mean', title: 'Norm of a row, mean over the rows' },
  row_norm_max: { of: 'row norm, largest', title: 'Norm of a row, largest of the rows' },
  column_norm_min: {
    of: 'column norm, smallest',
    title: 'Norm of a column, smallest of the columns',
  },
  column_norm_mean: { of: 'column norm, mean', title: 'Norm of a column, mean over the columns' },
  column_norm_max: {
    of: 'column norm, largest',
    title: 'Norm of a column, largest of the columns',
  },
  bad: { of: 'NaN', title: 'Numbers that are not finite' },
} as const satisfies Record<string, { readonly of: StatName; readonly title: string }>;
export type Curve = keyof typeof kCurves;
export const kCurveNames = Object.keys(kCurves) as [Curve, ...Curve[]];

/** The name of a curve in a choice. */
export function curveName(curve: Curve): string {
  return curve === 'bad' ? 'NaN, Inf' : curve.replaceAll('_', ' ');
}

/** The statistic that an alarm on the curve tests. */
export function alarmStatistic(curve: Curve): string {
  return curve === 'bad' ? 'nonfinite' : curve;
}

/** The unit of a curve. Kurtosis is a ratio, zeros are a fraction, and `bad` is a count. */
export function curveUnit(curve: Curve, numbers: string): string {
  if (curve === 'bad') return 'count';
  if (curve === 'zeros') return 'fraction';
  return curve === 'kurtosis' ? '' : numbers;
}

/** The root mean square of `count` numbers, for records that have only the norm. */
export function rmsOf(norm: number, count: number): number {
  return count > 0 ? norm / Math.sqrt(count) : Number.NaN;
}

/** The base step of the growth: the first kept step from `since` on, else the last kept step. */
export function baseStep(steps: readonly number[], since: number): number | null {
  if (steps.length === 0) return null;
  return steps[Math.min(lowerBound(steps, since), steps.length - 1)];
}

/** Each curve in multiples of its value at step `from`. Null if that value is missing or 0. */
export function growthOf(steps: readonly number[], lines: readonly Line[], from: number): Line[] {
  const at = steps.indexOf(from);
  return lines.map((line) => {
    const base = line[at] ?? null;
    return line.map((value) => {
      return value === null || base === null || base === 0 ? null : value / base;
    });
  });
}

/** Curves over the steps as a map, with one row for each curve. */
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
  return {
    rows: lines.length,
    cols,
    values,
    present: new Uint8Array(lines.length).fill(1),
    absent,
    stats,
  };
}

/** The rows of a table, sorted by one column. A '-' before its name puts the largest first. */
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

/** The order after a click on a column's head: the largest first, then the smallest, then by layer. */
export function nextSort(sort: string, column: string): string {
  if (sort === `-${column}`) return column;
  return sort === column ? '' : `-${column}`;
}
