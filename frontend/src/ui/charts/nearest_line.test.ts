import { expect, test } from 'vitest';
import { nearestOf } from './nearest_line';

test('the nearest line counts, if it is near enough', () => {
  expect(nearestOf([10, 50, null], 44, 24)).toBe(1);
  expect(nearestOf([10, 50, null], 90, 24)).toBeNull();
  expect(nearestOf([10, 50, Number.NaN], 12, 24)).toBe(0);
  expect(nearestOf([], 12, 24)).toBeNull();
});

test('of two lines at one height the later one counts: it is drawn on top', () => {
  expect(nearestOf([10, 10], 10, 24)).toBe(1);
});
