import { expect, test } from 'vitest';
import { lastCrossing } from './crossing';

const kSteps = [10, 20, 30, 40, 50];

test('a line that never reaches the threshold has not crossed it', () => {
  expect(lastCrossing(kSteps, [0, 1, 1.9, 1, 0], 2)).toBeUndefined();
  expect(lastCrossing([], [], 0)).toBeUndefined();
});

test('a stay begins at the first step beyond and lasts while the line is there', () => {
  expect(lastCrossing(kSteps, [0, 1, 2, 3, 2], 2)).toEqual({ step: 30, until: null });
});

test('of many stays the last one counts, and a finished one has an end', () => {
  expect(lastCrossing(kSteps, [5, 0, 5, 0, 0], 2)).toEqual({ step: 30, until: 40 });
  expect(lastCrossing(kSteps, [5, 0, 5, 0, 6], 2)).toEqual({ step: 50, until: null });
});

test('a negative threshold is crossed downwards', () => {
  expect(lastCrossing(kSteps, [0, -1, -2, -3, 9], -2)).toEqual({ step: 30, until: 50 });
  expect(lastCrossing(kSteps, [9, 9, 9, 9, 9], -2)).toBeUndefined();
});

test('a gap ends no stay', () => {
  expect(lastCrossing(kSteps, [0, 3, null, null, 3], 2)).toEqual({ step: 20, until: null });
});

test('a line that overflows stays beyond', () => {
  expect(lastCrossing(kSteps, [0, 3, Infinity, NaN, NaN], 2)).toEqual({ step: 20, until: null });
  expect(lastCrossing(kSteps, [0, 1, NaN, NaN, NaN], -2)).toEqual({ step: 30, until: null });
});
