import { expect, test } from 'vitest';
import { spacingOf, withGaps } from './spacing';

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
