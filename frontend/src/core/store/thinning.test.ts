import { expect, test } from 'vitest';
import { thinned } from './thinning';

const stepsOf = (items: readonly { step: number }[]): number[] => items.map(({ step }) => step);
const range = (first: number, last: number, every = 1): { step: number }[] =>
  Array.from({ length: (last - first) / every + 1 }, (_, i) => ({ step: first + i * every }));

test('what fits is kept whole', () => {
  const { items, spacing } = thinned(range(10, 100, 10), 1, 10);
  expect([stepsOf(items), spacing]).toEqual([stepsOf(range(10, 100, 10)), 10]);
});

test('the grid stands on step numbers, and the newest is kept too', () => {
  const { items, spacing } = thinned(range(1, 19), 1, 10);
  expect([stepsOf(items), spacing]).toEqual([[1, 4, 8, 12, 16, 19], 4]);
  expect(stepsOf(thinned(range(10, 190, 10), 10, 10).items)).toEqual([10, 40, 80, 120, 160, 190]);
});

test('what was kept stays while steps arrive, until the grid is too fine', () => {
  let before = stepsOf(thinned(range(1, 1001), 1, 1000).items).slice(0, -1);
  let changes = 0;
  for (let last = 1002; last < 2100; last++) {
    const kept = stepsOf(thinned(range(1, last), 1, 1000).items);
    expect(kept.length).toBeLessThanOrEqual(1000);
    if (!before.every((step) => kept.includes(step))) changes += 1;
    before = kept.slice(0, -1);
  }
  expect(changes).toBe(1);
});

test('what is forgotten at the other end moves nothing but the first', () => {
  const steps = (first: number): number[] => stepsOf(thinned(range(first, 5000), 1, 1000).items);
  expect(steps(7).slice(1)).toEqual(steps(1).slice(1));
});
