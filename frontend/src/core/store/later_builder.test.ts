import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { registerCompressors } from './compressors';
import { RingStore } from './ring_store';
import { kTestQuery } from './test_query';
import type { ViewFrame } from './frames';
import { makeRecord } from './test_records';
import { buildersLoaded, buildView, laterBuilder, registerBuilders } from './view';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('the code of a view is fetched when its first frame is asked for, and again after a failure', async () => {
  let tries = 0;
  const form = 'later-test';
  registerCompressors([{ name: form, code: 77, form, hasCurves: false, isByToken: false }]);
  const builder = laterBuilder({ kind: 'maps', form, fits: () => true }, async () => {
    tries += 1;
    if (tries === 1) return Promise.reject(new Error('the hub is away'));
    return Promise.resolve({
      build: () => ({ kind: 'maps' }) as unknown as Extract<ViewFrame, { kind: 'maps' }>,
      buffersOf: () => [],
    });
  });
  registerBuilders([builder]);
  const store = new RingStore(1e6);
  store.insert(makeRecord({ compressor: 77 }));
  const build = (): unknown => buildView(store, { ...kTestQuery, form });
  const loading = { empty: { reason: 'loading' } };
  expect(tries).toBe(0);
  expect([build(), build()]).toMatchObject([loading, loading]);
  const failed = buildersLoaded();
  await vi.advanceTimersByTimeAsync(2000);
  await failed;
  expect(tries).toBe(1);
  expect(build()).toMatchObject(loading);
  await buildersLoaded();
  expect([tries, build()]).toEqual([2, { frame: { kind: 'maps' } }]);
});
