import { expect, test } from 'vitest';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';
import type { Pinned } from '../../core/store/pin';
import type { LensFrame } from './frame';
import { columnsIn, highestOf, predictionsAt, valueAt } from './lens_cells';
import type { LensColour } from './lens_colour';

/**
 * Two tokens with the two largest of five scores. [planes, rows, tokens, k]: scores, ids, log-sum-exp
 * and entropy, loss and target. NumPy computed log-sum-exp and entropy of the scores 3, 1, 0, 0, -1
 * and 2, 2, 1, 0, 0.
 */
const kNumbers = Float32Array.of(
  ...[3, 1, 2, 2],
  ...[4, 0, 1, 3],
  ...[3.2257203, 0.7385216, 2.9702295, 1.3148205],
  ...[2.2257203, 0, 0.9702295, 3],
);

function shown(query: object = {}): LensFrame {
  const store = new RingStore(1e6);
  const header = { point: 30, compressor: 5, shape: [4, 1, 2, 2], features: 5 };
  store.insert(makeRecord({ ...header, layer: 1 }, kNumbers));
  store.insert(makeRecord({ ...header, layer: 3 }, kNumbers));
  const lens = { point: 30, form: 'topk', pointName: 'LogitLens' };
  return frameOf(store, 'lens', { ...lens, ...query });
}

test('a cell has the best tokens of its layer with their probabilities', () => {
  const frame = shown();
  expect([frame.layers, frame.cols, frame.k]).toEqual([[1, 2, 3], 2, 2]);
  expect([...frame.targets]).toEqual([0, 3]);
  const [best, second] = predictionsAt(frame, 0, 0);
  expect([best.id, best.isTarget, second.id, second.isTarget]).toEqual([4, false, 0, true]);
  expect(best.probability).toBeCloseTo(Math.exp(-0.22572028), 5);
  expect(second.probability).toBeCloseTo(Math.exp(-2.2257203), 5);
  expect(predictionsAt(frame, 2, 1)[1]).toMatchObject({ id: 3, isTarget: true });
});

test('colours stand for a probability or the entropy; a layer that lacks is not known', () => {
  const frame = shown();
  expect(valueAt(frame, 0, 0, 'target')).toBeCloseTo(Math.exp(-2.2257203), 5);
  expect(valueAt(frame, 0, 1, 'best')).toBeCloseTo(Math.exp(2 - 2.9702295), 5);
  expect(valueAt(frame, 0, 1, 'entropy')).toBeCloseTo(1.3148205, 6);
  expect(valueAt(frame, 1, 0, 'target')).toBeNaN();
  expect(predictionsAt(frame, 1, 0)).toEqual([]);
  expect([highestOf(frame, 'best'), highestOf(frame, 'entropy')]).toEqual([1, Math.log(5)]);
});

test('what the colour of a pinned cell tells, over tokens, layers and steps', () => {
  const pinned = (lensColour: LensColour): Pinned | null =>
    shown({ lensColour, pin: { col: 1, cell: 3 } }).pinned;
  const best = Math.exp(2 - 2.9702295);
  expect(pinned('best')?.value).toBeCloseTo(best, 6);
  expect(pinned('best')?.overLayers.map((each) => each?.toFixed(4))).toEqual([
    ...[best.toFixed(4), undefined, best.toFixed(4)],
  ]);
  expect(pinned('target')?.overColumns[0]).toBeCloseTo(Math.exp(-2.2257203), 6);
  expect(pinned('entropy')?.overSteps[0]).toBeCloseTo(1.3148205, 6);
});

test('a prompt ends before its filling', () => {
  expect(shown({ promptSet: 0, lengths: [1] }).cols).toBe(1);
});

test('only columns in sight are drawn', () => {
  expect(columnsIn(0, 100, 40, 2048)).toEqual([0, 4]);
  expect(columnsIn(4000, 100, 40, 2048)).toEqual([99, 104]);
  expect(columnsIn(0, 5000, 40, 3)).toEqual([0, 3]);
});
