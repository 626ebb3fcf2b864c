import { expect, test } from 'vitest';
import { lateBegin, spacingOf, withGaps } from './spacing';

test('the spacing is what the entry says, or what was captured', () => {
  expect(spacingOf([], 10)).toBe(10);
  expect(spacingOf([3, 4, 9], 1)).toBe(1);
  expect(spacingOf([50, 100, 200], 1)).toBe(50);
});

test('a line breaks where far more steps than usual are missing', () => {
  const steps = [10, 20, 40, 50, 200, 210];
  const { steps: rows, values } = withGaps({ steps, values: [[1, 2, 3, 4, 5, 6]] });
  expect(rows).toEqual([10, 20, 40, 50, 51, 200, 210]);
  expect(values).toEqual([[1, 2, 3, 4, null, 5, 6]]);
  expect(withGaps({ steps: [1], values: [[7]] })).toEqual({ steps: [1], values: [[7]] });
});

test('a line that is taken more seldom from some step on does not break there', () => {
  const often = [1, 2, 3, 4, 5, 6, 7, 8];
  const seldom = [10, 20, 30, 40, 50, 60];
  const rows = (steps: readonly number[]): readonly number[] =>
    withGaps({ steps, values: [] }).steps;
  expect(rows([...often, ...seldom])).toEqual([...often, ...seldom]);
  expect(rows([...seldom, 61, 62, 63, 64])).toEqual([...seldom, 61, 62, 63, 64]);
  expect(rows([...often, 90, 91, 92, 93])).toEqual([...often, 9, 90, 91, 92, 93]);
  // A single step between two gaps.
  expect(rows([...often, 50, 90, 91, 92, 93])).toEqual([...often, 9, 50, 51, 90, 91, 92, 93]);
});

test('a curve that begins later than the history has a first step to name', () => {
  expect(lateBegin([500, 510, 520], 1)).toBe(500);
  expect(lateBegin([10, 20, 30], 1)).toBeUndefined();
  expect(lateBegin([41, 51], 1)).toBeUndefined();
  expect(lateBegin([42, 52], 1)).toBe(42);
  expect(lateBegin([], 1)).toBeUndefined();
  expect(lateBegin([500], undefined)).toBeUndefined();
});
