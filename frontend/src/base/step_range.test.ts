import { expect, test } from 'vitest';
import { held, moved, nearestIndex, scaled, stepCells, zoomOfCells } from './step_range';

const kAll = [1, 1001] as const;

test('zooming keeps what is under the mouse in its place', () => {
  expect(scaled([1, 1001], 0.5, 251, kAll, false)).toEqual([126, 626]);
  expect(scaled([126, 626], 2, 251, kAll, false)).toBeNull();
  const [low, high] = scaled([10, 1000], 0.5, 100, kAll, true) ?? [0, 0];
  expect(low).toBeCloseTo(31.62, 2);
  expect(high).toBeCloseTo(316.23, 2);
});

test('moving keeps the width and stops at the ends', () => {
  expect(moved([100, 200], 0.5, kAll, false)).toEqual([150, 250]);
  expect(moved([100, 200], -5, kAll, false)).toEqual([1, 101]);
  expect(moved([100, 200], 50, kAll, false)).toEqual([901, 1001]);
  const [low, high] = moved([10, 100], 1, kAll, true) ?? [0, 0];
  expect(low).toBeCloseTo(100, 0);
  expect(high).toBeCloseTo(1000, 0);
});

test('a range is never narrower than two steps, and the whole range counts as no range', () => {
  expect(held([400, 400.2], kAll)).toEqual([399.1, 401.1]);
  expect(held([-5, 2000], kAll)).toBeNull();
  expect(held([1 / 3 + 500, 600], kAll)).toEqual([500.33, 600]);
});

test('the nearest step', () => {
  const steps = [10, 20, 40];
  expect([0, 14, 16, 29, 31, 99].map((value) => nearestIndex(steps, value))).toEqual([
    0, 0, 1, 1, 2, 2,
  ]);
  expect(nearestIndex([], 3)).toBe(-1);
});

test('columns of steps and the zoom of the curves are one', () => {
  const steps = [10, 20, 30, 40];
  expect(stepCells(steps, null)).toEqual([0, 4]);
  expect(stepCells(steps, [15, 35])).toEqual([1, 3]);
  expect(stepCells(steps, [41, 60]), 'nothing to see there').toEqual([0, 4]);
  expect(zoomOfCells(steps, [0, 4])).toBeNull();
  expect(zoomOfCells(steps, [1, 2])).toEqual([19.5, 20.5]);
  expect(stepCells(steps, zoomOfCells(steps, [1, 3]))).toEqual([1, 3]);
});
