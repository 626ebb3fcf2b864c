import { expect, test } from 'vitest';
import { lossesAt, withLosses } from './losses';

test('parts are joined by step; a step that comes twice has its last loss', () => {
  const newest = withLosses([], [[30, 3], [40, 2]]); // prettier-ignore
  expect(withLosses(newest, [[10, 5], [30, 4]])).toEqual([[10, 5], [30, 4], [40, 2]]); // prettier-ignore
});

test('a loss between two steps is interpolated, and none is made up outside', () => {
  const losses = [[2, 8], [4, 4], [8, 2]] as const; // prettier-ignore
  expect(lossesAt([1, 2, 3, 4, 5, 8, 9], losses)).toEqual([null, 8, 6, 4, 3.5, 2, null]);
  expect(lossesAt([1, 2], [])).toEqual([null, null]);
  expect(lossesAt([], losses)).toEqual([]);
});
