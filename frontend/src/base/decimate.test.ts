import { describe, expect, test } from 'vitest';
import { lowerBound, rowsToDraw } from './decimate';

const kAll = { low: 0, high: 9999, log: false, columns: 100 };
const range = (length: number): number[] => Array.from({ length }, (_, i) => i);

/** For each pixel column: the smallest and the largest value, and whether a value is missing. */
function columnsOf(
  x: readonly number[],
  line: readonly (number | null)[],
  rows: readonly number[],
): string[] {
  return range(100).map((column) => {
    const inside = rows.filter((row) => Math.min(99, Math.floor((x[row] / 9999) * 100)) === column);
    const values = inside.map((row) => line[row]).filter((value) => value !== null);
    const missing = inside.some((row) => line[row] === null);
    return `${Math.min(...values)} ${Math.max(...values)} ${missing}`;
  });
}

describe('rowsToDraw', () => {
  test('every pixel column keeps its first, last, least and largest value and its gap', () => {
    const x = range(10_000);
    const line = x.map((i) =>
      i === 5155 ? 1000 : i === 2702 ? -1000 : i % 997 === 0 ? null : Math.sin(i * 12.9898) * 50,
    );
    const other = x.map((i) => (i % 10 === 3 ? i : null));
    const { rows: drawn, dense } = rowsToDraw(x, [line, other], kAll);
    const rows = drawn ?? [];
    expect(dense).toBe(true);
    expect(rows.length).toBeLessThan(1000);
    expect(rows).toEqual([...new Set(rows)].sort((a, b) => a - b));
    expect(rows).toContain(5155);
    expect(rows).toContain(2702);
    expect(columnsOf(x, line, rows)).toEqual(columnsOf(x, line, x));
    expect(columnsOf(x, other, rows)).toEqual(columnsOf(x, other, x));
    for (const column of range(100)) {
      const inside = x.filter((i) => Math.min(99, Math.floor((i / 9999) * 100)) === column);
      expect(rows).toContain(inside[0]);
      expect(rows).toContain(inside.at(-1));
    }
  });

  test('few rows are all drawn; a narrow window takes one more at each side', () => {
    const x = range(10_000).map((i) => i * 2);
    const line = x.map((i) => i);
    expect(rowsToDraw(x.slice(0, 200), [line], kAll)).toEqual({ rows: null, dense: false });
    const window = { low: 101, high: 107, log: false, columns: 100 };
    const near = { rows: [50, 51, 52, 53, 54, 55], dense: false };
    expect(rowsToDraw(x, [line], window)).toEqual(near);
    const beyond = { ...window, low: 50_000, high: 50_010 };
    expect(rowsToDraw(x, [line], beyond)).toEqual({ rows: [9999], dense: false });
  });

  test('on a logarithmic axis the columns are even on the screen', () => {
    const x = range(10_000).map((i) => i + 1);
    const line = x.map((i) => i);
    const rows =
      rowsToDraw(x, [line], { low: 1, high: 10_000, log: true, columns: 100 }).rows ?? [];
    // Below step 25 a column holds less than one step, so all steps are drawn.
    expect(rows.slice(0, 20)).toEqual(range(20));
    expect(rows.filter((row) => x[row] > 5000).length).toBeLessThan(20);
  });
});

test('lowerBound', () => {
  expect([0, 1, 2, 5, 9].map((wanted) => lowerBound([1, 2, 5], wanted))).toEqual([0, 0, 1, 2, 3]);
  expect(lowerBound([], 3)).toBe(0);
});
