import { expect, test } from 'vitest';
import { lossTrend } from './loss_trend';

const falling = (steps: number): { step: number; loss: number | null }[] =>
  Array.from({ length: steps }, (_, i) => ({ step: i + 1, loss: 4 - 0.01 * i }));

test('the trend is the change over a hundred steps', () => {
  // The mean of the steps 191 to 200 is 2.055, and that of the steps 91 to 100 is 3.055.
  expect(lossTrend(falling(200))).toBeCloseTo(-1 / 3.055, 10);
  expect(lossTrend(falling(200).map(({ step }) => ({ step, loss: 2 })))).toBe(0);
});

test('without enough steps, or with one that is not finite, there is no trend', () => {
  expect(lossTrend([])).toBeUndefined();
  expect(lossTrend(falling(100))).toBeUndefined();
  const bad = falling(200);
  bad[195] = { step: 196, loss: null };
  expect(lossTrend(bad)).toBeUndefined();
});
