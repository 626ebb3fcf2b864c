import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { SeriesClock } from './series_clock.svelte';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A clock whose updates take `duration` milliseconds each. */
function clockOf(duration: number): SeriesClock {
  const drawn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, duration));
  return new SeriesClock(drawn, () => Date.now());
}

test('the first change is an update at once, later ones after a pause', async () => {
  const clock = clockOf(100);
  clock.changed();
  expect(clock.version).toBe(1);
  for (let changes = 0; changes < 40; changes++) {
    await vi.advanceTimersByTimeAsync(10);
    clock.changed();
  }
  expect(clock.version).toBe(1);
  await vi.advanceTimersByTimeAsync(101);
  expect(clock.version).toBe(2);
});

test('without changes, nothing is updated', async () => {
  const clock = clockOf(1);
  clock.changed();
  await vi.advanceTimersByTimeAsync(1000);
  expect(clock.version).toBe(1);
  clock.changed();
  expect(clock.version).toBe(2);
});

test('a flush does not wait for the pause', async () => {
  const clock = clockOf(100);
  clock.changed();
  clock.flush();
  expect(clock.version).toBe(1);
  clock.changed();
  clock.flush();
  expect(clock.version).toBe(2);
  await vi.advanceTimersByTimeAsync(1000);
  expect(clock.version).toBe(2);
});
