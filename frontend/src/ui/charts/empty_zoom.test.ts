import { expect, test } from 'vitest';
import { leavesNothing } from './empty_zoom';

const kSteps = [10, 20, 30, 40];
const kLine = [1, 2, null, null];

test('a zoom before or behind all steps leaves nothing', () => {
  expect(leavesNothing(kSteps, [kLine], [41, 90])).toBe(true);
  expect(leavesNothing(kSteps, [kLine], [1, 9])).toBe(true);
  expect(leavesNothing(kSteps, [kLine], [5, 12])).toBe(false);
});

test('a zoom on steps without a number leaves nothing', () => {
  expect(leavesNothing(kSteps, [kLine], [25, 45])).toBe(true);
  expect(leavesNothing(kSteps, [kLine, [null, null, null, 4]], [25, 45])).toBe(false);
});

test('between two steps the line passes; without zoom or steps there is nothing to leave', () => {
  expect(leavesNothing(kSteps, [kLine], [12, 18])).toBe(false);
  expect(leavesNothing(kSteps, [kLine], null)).toBe(false);
  expect(leavesNothing([], [], [1, 2])).toBe(false);
});
