import { expect, test } from 'vitest';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';
import type { LensFrame } from './frame';
import { lensMaps } from './pair';

/** A frame of these layers: one token with the best of three scores. */
function frame(loss: number, layers: readonly number[]): LensFrame {
  const store = new RingStore(1e6);
  const header = { point: 30, compressor: 5, shape: [6, 1, 1, 1], features: 3 };
  for (const layer of layers) {
    store.insert(makeRecord({ ...header, layer }, Float32Array.of(2, 1, 2.5, 1, loss, 0)));
  }
  return frameOf(store, 'lens', { point: 30, form: 'topk', pointName: 'LogitLens' });
}

test('two lenses are compared by what their colours tell, in the layers that both have', () => {
  const [a, b] = [frame(1, [1, 2]), frame(2, [1])];
  const pair = { kind: 'lens' as const, a, b, layers: [1, 2], sameTokens: null };
  const { difference } = lensMaps(pair, 'target');
  expect(difference.values[0]).toBeCloseTo(Math.exp(-1) - Math.exp(-2), 12);
  expect([...difference.present]).toEqual([1, 0]);
  expect(lensMaps(pair, 'best').difference.values[0]).toBe(0);
});
