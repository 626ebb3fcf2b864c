import { expect, test } from 'vitest';
import { baseStep, growthOf, mapOfLines, nextSort, rmsOf, sortedRows } from './statistic';

test('the root mean square does not depend on how many numbers there are', () => {
  const norm = (values: number[]): number => Math.hypot(...values);
  const some = [3, -4, 1, 2];
  const twice = [...some, ...some];
  expect(rmsOf(norm(twice), twice.length)).toBeCloseTo(rmsOf(norm(some), some.length), 12);
  expect(rmsOf(norm(some), some.length)).toBeCloseTo(Math.sqrt(30 / 4), 12);
  expect(rmsOf(0, 0)).toBeNaN();
});

test('growth is counted from the first kept step on', () => {
  const steps = [10, 20, 30];
  expect([baseStep(steps, 1), baseStep(steps, 11), baseStep(steps, 99)]).toEqual([10, 20, 30]);
  expect(baseStep([], 1)).toBeNull();
  const lines = [
    [2, null, 5],
    [null, 4, 8],
    [0, 1, 2],
  ];
  expect(growthOf(steps, lines, 10)).toEqual([
    [1, null, 2.5],
    [null, null, null],
    [null, null, null],
  ]);
  expect(growthOf(steps, lines, 20)[1]).toEqual([null, 1, 2]);
});

test('lines as a map: what was not captured is absent', () => {
  const map = mapOfLines(
    [
      [1, null],
      [-3, 4],
    ],
    2,
  );
  expect([...map.values]).toEqual([1, 0, -3, 4]);
  expect([...(map.absent ?? [])]).toEqual([0, 1, 0, 0]);
  expect([map.stats.min, map.stats.max]).toEqual([-3, 4]);
});

test('a column sorts the rows; what has no number comes last', () => {
  const values = [2, Number.NaN, 7];
  const of = (row: number): number => values[row];
  expect(sortedRows(3, '', of)).toEqual([0, 1, 2]);
  expect(sortedRows(3, '-rms', of)).toEqual([2, 0, 1]);
  expect(sortedRows(3, 'rms', of)).toEqual([0, 2, 1]);
  expect(['', '-rms', 'rms', 'mean'].map((sort) => nextSort(sort, 'rms'))).toEqual([
    '-rms',
    'rms',
    '',
    '-rms',
  ]);
});
