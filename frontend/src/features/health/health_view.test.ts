import { expect, test } from 'vitest';
import { RingStore } from '../../core/store/ring_store';
import { frameOf, kTestQuery } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';
import { hasCurves } from '../../core/store/view';
import type { HealthFrame } from './frame';

/** Two prompts of three tokens with two heads; the second prompt has two tokens and padding. */
const kNumbers = [1, 10, 2, 20, 6, 30, 4, 40, 8, 10, 99, 99];

function shown(pointName: string, query: object = {}): HealthFrame {
  const store = new RingStore(1e6);
  const header = { point: 40, compressor: 0, shape: [2, 3, 2], features: 2 };
  for (const step of [10, 20]) {
    const numbers = Float32Array.from(kNumbers, (value) => value * (step / 10));
    store.insert(makeRecord({ ...header, step, layer: 1 }, numbers.slice()));
    if (step === 20) store.insert(makeRecord({ ...header, step, layer: 2 }, numbers));
  }
  return frameOf(store, 'health', { point: 40, pointName, lengths: [3, 2], ...query });
}

test('each head has one number of each layer: the mean of its queries, without the filling', () => {
  const frame = shown('attention.entropy');
  expect([frame.heads, frame.layers]).toEqual([2, [1, 2]]);
  expect([...frame.byHead]).toEqual([6, 40, 6, 40]);
  expect([...shown('attention.entropy', { row: 1 }).byHead]).toEqual([12, 50, 12, 50]);
});

test('of scores the largest counts', () => {
  const frame = shown('attention.largest_score', { row: 1, head: 1 });
  expect([...frame.byHead]).toEqual([16, 80, 16, 80]);
  expect(frame.overSteps).toEqual({
    steps: [10, 20],
    values: [
      [40, 80],
      [null, 80],
    ],
  });
});

test('of the chosen head every query is shown, and its curve has a past', () => {
  const { tokenMap } = shown('attention.entropy', { head: 1 });
  expect([...tokenMap.values]).toEqual([20, 40, 60, 20, 40, 60]);
  const { pinned } = shown('attention.entropy', { head: 1, layer: 2, pin: { col: 2, cell: null } });
  expect(pinned).toMatchObject({
    ...{ value: 60, overColumns: [20, 40, 60], overLayers: [60, 60] },
    ...{ steps: [10, 20], overSteps: [null, 60] },
  });
  expect(hasCurves({ ...kTestQuery, pointName: 'attention.entropy' })).toBe(true);
  expect(hasCurves(kTestQuery)).toBe(false);
});
