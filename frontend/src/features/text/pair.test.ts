import { expect, test } from 'vitest';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';
import type { TopKFrame } from './frame';
import { changedBest, divergencesOf } from './pair';

/** One token with the two largest of four scores, and their log-sum-exp if it is known. */
function frame(scores: readonly number[], ids: readonly number[], sum: number | null): TopKFrame {
  const store = new RingStore(1e6);
  const softmax = sum === null ? [] : [sum, 1, 0.5, 3];
  const shape = [sum === null ? 2 : 4, 1, 1, 2];
  const header = { point: 23, layer: 0, compressor: 5, shape, features: 4 };
  store.insert(makeRecord(header, Float32Array.of(...scores, ...ids, ...softmax)));
  return frameOf(store, 'topk', { point: 23, form: 'topk', pointName: 'Logits' });
}

test('the divergence of two predictions is a bound, as two of four tokens are listed', () => {
  // ln(e^2 + e^1 + 1 + 1), and ln(e^1 + e^2 + 1 + 1).
  const sum = Math.log(Math.exp(2) + Math.exp(1) + 2);
  const a = frame([2, 1], [3, 1], sum);
  const b = frame([2, 1], [1, 3], sum);
  expect(changedBest(a, b)).toHaveLength(1);
  const divergences = divergencesOf(a, b);
  // Both list 1 and 3: their probabilities are exchanged, the rest stays.
  const p = Math.exp(2 - sum) - Math.exp(1 - sum);
  expect(divergences?.nats[0]).toBeCloseTo(p, 6);
  expect(divergences?.isExact).toBe(false);
});

test('without the log-sum-exp of both sides nothing is known of the divergence', () => {
  const known = frame([2, 1], [3, 1], 3);
  expect(divergencesOf(known, frame([2, 1], [3, 1], null))).toBeNull();
});
