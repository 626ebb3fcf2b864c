import { expect, test } from 'vitest';
import { Backoff } from './backoff';

test('waits double from 0.25 to 2.5 seconds and stay there', () => {
  const backoff = new Backoff(() => 0.5);
  expect(Array.from({ length: 7 }, () => backoff.next())).toEqual([0.25, 0.5, 1, 2, 2.5, 2.5, 2.5]);
});

test('jitter keeps every wait inside the bounds, for ever', () => {
  for (const random of [0, 0.3, 0.999]) {
    const backoff = new Backoff(() => random);
    for (let i = 0; i < 2000; i++) {
      const wait = backoff.next();
      expect(wait).toBeGreaterThanOrEqual(0.25);
      expect(wait).toBeLessThanOrEqual(2.5);
    }
  }
});

test('two pages do not knock at the same time', () => {
  const early = new Backoff(() => 0);
  const late = new Backoff(() => 0.9);
  early.next();
  late.next();
  expect(early.next()).not.toBe(late.next());
});

test('a connection that came about starts over', () => {
  const backoff = new Backoff(() => 0.5);
  for (let i = 0; i < 5; i++) backoff.next();
  backoff.reset();
  expect(backoff.next()).toBe(0.25);
});
