import { expect, test } from 'vitest';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';
import { kTraitsFiles } from './files';

test('a file has every vector over all layers and steps; NaN where there is no record', () => {
  const store = new RingStore(1e6);
  const header = { compressor: 4, shape: [1, 2, 2] };
  for (const [step, layer] of [
    [10, 1],
    [10, 2],
    [20, 2],
  ]) {
    store.insert(makeRecord({ ...header, step, layer }, Float32Array.of(1, 10, 3, 30)));
  }
  const frame = frameOf(store, 'traits', { form: 'projection', traits: true }, 'whole');
  const arrays = kTraitsFiles.arraysOf(frame);
  expect(arrays.map(({ name }) => name)).toEqual([
    ...['vector0_mean', 'vector0_last', 'vector1_mean', 'vector1_last', 'projection'],
  ]);
  const [mean, , , last] = arrays;
  expect(mean.axes.map(({ labels }) => labels)).toEqual([
    [1, 2],
    [10, 20],
  ]);
  expect([...mean.data].map(Number)).toEqual([2, Number.NaN, 2, 2]);
  expect([...last.data].map(Number)).toEqual([30, Number.NaN, 30, 30]);
});
