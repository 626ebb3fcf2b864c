import { expect, test } from 'vitest';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';
import { kOverFiles } from './files';

test('a cell without data is NaN, not the 0 that a map holds there', () => {
  const store = new RingStore(1e6);
  const shape = [1, 1, 1];
  store.insert(makeRecord({ step: 1, layer: 1, shape }, Float32Array.of(3)));
  store.insert(makeRecord({ step: 2, layer: 1, shape }, Float32Array.of(4)));
  store.insert(makeRecord({ step: 2, layer: 2, shape }, Float32Array.of(5)));
  const [over] = kOverFiles.arraysOf(frameOf(store, 'over', { layout: 'over' }, 'whole'));
  expect(over.axes.map(({ labels }) => labels)).toEqual([
    [1, 2],
    [1, 2],
  ]);
  expect([...over.data]).toEqual([3, 4, Number.NaN, 5]);
});
