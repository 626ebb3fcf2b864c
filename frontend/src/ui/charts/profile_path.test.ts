import { expect, test } from 'vitest';
import { profilePath, profileRange } from './profile_path';

test('the axis holds the finite numbers', () => {
  expect(profileRange([1, null, -3, Infinity, Number.NaN])).toEqual([-3, 1]);
  expect(profileRange([2, 2])).toEqual([1, 3]);
  expect(profileRange([0])).toEqual([-1, 1]);
  expect(profileRange([null])).toEqual([0, 1]);
});

test('the line breaks where a number is missing or not finite', () => {
  expect(profilePath([0, 1])).toBe('M0.4 1L0.5 1L1.5 0');
  expect(profilePath([0, Number.NaN, 1])).toBe('M0.4 1L0.5 1M2.4 0L2.5 0');
  expect(profilePath([])).toBe('');
});
