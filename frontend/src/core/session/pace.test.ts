import { expect, test } from 'vitest';
import { secondsLeft, stepsPerSecond } from './pace';

const kOld = Array.from({ length: 50 }, (_, i) => ({ step: i + 1, step_ms: 9000 }));
const kFresh = Array.from({ length: 20 }, (_, i) => ({ step: 51 + i, step_ms: 400 }));
const kSlowOnce = kFresh.map((facts, i) => (i === 3 ? { ...facts, step_ms: 60_000 } : facts));

test('the middle of the newest step times counts', () => {
  expect(stepsPerSecond([...kOld, ...kSlowOnce])).toBe(2.5);
  expect(secondsLeft([...kOld, ...kSlowOnce], 70, 170)).toBe(40);
  expect(secondsLeft(kFresh, 200, 170)).toBe(0);
});

test('without times, or without an end, it is not known', () => {
  const timeless = [{ step: 1 }, { step: 2, step_ms: null }];
  expect(stepsPerSecond(timeless)).toBeNull();
  expect(stepsPerSecond([])).toBeNull();
  expect(secondsLeft(timeless, 2, 10)).toBeNull();
  expect(secondsLeft([{ step: 1, step_ms: 10 }], 1, undefined)).toBeNull();
});
