import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type * as Chunks from './chunks';

let chunks: typeof Chunks;

beforeEach(async () => {
  vi.useFakeTimers();
  vi.resetModules();
  chunks = await import('./chunks');
});

afterEach(() => void vi.useRealTimers());

test('the other chunks wait for those of the first view', async () => {
  let arrive: (text: string) => void = () => undefined;
  const first = chunks.chunk(() => new Promise<string>((resolve) => (arrive = resolve)));
  const other = vi.fn(() => Promise.resolve('other'));
  chunks.chunk(other);
  void first();
  void chunks.loadAll();
  void chunks.loadAll();
  await vi.advanceTimersByTimeAsync(5000);
  expect(other).not.toHaveBeenCalled();
  arrive('first');
  await vi.advanceTimersByTimeAsync(0);
  expect(other).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1000);
  expect(other).toHaveBeenCalledOnce();
});

test('a chunk that failed is tried again', async () => {
  const load = vi.fn(() => Promise.reject(new Error('no hub')));
  chunks.chunk<unknown>(load);
  for (const calls of [1, 2]) {
    void chunks.loadAll();
    await vi.advanceTimersByTimeAsync(1000);
    expect(load).toHaveBeenCalledTimes(calls);
  }
});
