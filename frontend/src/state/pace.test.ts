import { expect, test } from 'vitest';
import { secondsLeft } from './pace';

test('the middle of the newest step times counts', () => {
  const old = Array.from({ length: 50 }, (_, i) => ({ step: i + 1, step_ms: 9000 }));
  const fresh = Array.from({ length: 20 }, (_, i) => ({ step: 51 + i, step_ms: 400 }));
  const slowOnce = fresh.map((facts, i) => (i === 3 ? { ...facts, step_ms: 60_000 } : facts));
  expect(secondsLeft([...old, ...slowOnce], 70, 170)).toBe(40);
  expect(secondsLeft(fresh, 200, 170)).toBe(0);
});

test('without times, or without an end, it is not known', () => {
  expect(secondsLeft([{ step: 1 }, { step: 2, step_ms: null }], 2, 10)).toBeNull();
  expect(secondsLeft([{ step: 1, step_ms: 10 }], 1, undefined)).toBeNull();
});
