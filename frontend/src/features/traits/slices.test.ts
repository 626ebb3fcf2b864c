import { expect, test } from 'vitest';
import { Slices } from './slices';

test('work goes on for a slice of time, then rests once', async () => {
  let now = 0;
  let rests = 0;
  const slices = new Slices(
    () => now,
    () => {
      rests += 1;
      now += 100;
      return Promise.resolve();
    },
  );
  for (let piece = 0; piece < 40; piece++) {
    now += 1;
    if (slices.isOver) await slices.rest();
  }
  // A slice has 8 ms; the time of the rests does not count.
  expect(rests).toBe(5);
});

test('a rest lets other tasks run', async () => {
  let ran = false;
  setTimeout(() => (ran = true), 0);
  const slices = new Slices();
  while (!ran) await slices.rest();
  expect(ran).toBe(true);
});
