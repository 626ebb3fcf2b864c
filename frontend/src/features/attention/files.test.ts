import { expect, test } from 'vitest';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';
import { kAttentionFiles } from './files';

test('every head of attention is an array; where there is one, it alone', () => {
  const store = new RingStore(1e6);
  const about = { point: 2, compressor: 0, features: 2 };
  store.insert(makeRecord({ ...about, shape: [1, 2, 1, 2] }, Float32Array.of(1, 2, 3, 4)));
  const heads = kAttentionFiles.arraysOf(frameOf(store, 'attention', { point: 2 }, 'whole'));
  expect(heads.map(({ name, data }) => [name, ...data])).toEqual([
    ['attention_head_0', 1, 2],
    ['attention_head_1', 3, 4],
  ]);
  store.insert(makeRecord({ ...about, step: 2, shape: [1, 1, 1, 2] }, Float32Array.of(5, 6)));
  const one = kAttentionFiles.arraysOf(frameOf(store, 'attention', { point: 2, step: 2 }, 'whole'));
  expect(one.map(({ name, data }) => [name, ...data])).toEqual([['attention_head_0', 5, 6]]);
});

test('tiles of keys are named as tiles', () => {
  const store = new RingStore(1e6);
  const header = { point: 2, compressor: 1, features: 8, shape: [1, 1, 1, 2] };
  store.insert(makeRecord(header, Float32Array.of(1, 2)));
  const [head] = kAttentionFiles.arraysOf(frameOf(store, 'attention', { point: 2 }, 'whole'));
  expect(head.axes[1]).toEqual({ name: 'tile', labels: [0, 1] });
});
