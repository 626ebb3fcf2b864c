import { expect, test } from 'vitest';
import { arraysOf, scalarArrays } from './export_arrays';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';

test('a cell without data is NaN, not the 0 that a map holds there', () => {
  const store = new RingStore(1e6);
  const shape = [1, 1, 1];
  store.insert(makeRecord({ step: 1, layer: 1, shape }, Float32Array.of(3)));
  store.insert(makeRecord({ step: 2, layer: 1, shape }, Float32Array.of(4)));
  store.insert(makeRecord({ step: 2, layer: 2, shape }, Float32Array.of(5)));
  const [over] = arraysOf(frameOf(store, 'over', { layout: 'over' }, 'whole'));
  expect(over.axes.map(({ labels }) => labels)).toEqual([
    [1, 2],
    [1, 2],
  ]);
  expect([...over.data]).toEqual([3, 4, Number.NaN, 5]);
});

test('every head of attention is an array; where there is one, it alone', () => {
  const store = new RingStore(1e6);
  const about = { point: 2, compressor: 0, features: 2 };
  store.insert(makeRecord({ ...about, shape: [1, 2, 1, 2] }, Float32Array.of(1, 2, 3, 4)));
  const heads = arraysOf(frameOf(store, 'attention', { point: 2 }, 'whole'));
  expect(heads.map(({ name, data }) => [name, ...data])).toEqual([
    ['attention_head_0', 1, 2],
    ['attention_head_1', 3, 4],
  ]);
  store.insert(makeRecord({ ...about, step: 2, shape: [1, 1, 1, 2] }, Float32Array.of(5, 6)));
  const one = arraysOf(frameOf(store, 'attention', { point: 2, step: 2 }, 'whole'));
  expect(one.map(({ name, data }) => [name, ...data])).toEqual([['attention_head_0', 5, 6]]);
});

test('tiles of keys are named as tiles', () => {
  const store = new RingStore(1e6);
  const header = { point: 2, compressor: 1, features: 8, shape: [1, 1, 1, 2] };
  store.insert(makeRecord(header, Float32Array.of(1, 2)));
  const [head] = arraysOf(frameOf(store, 'attention', { point: 2 }, 'whole'));
  expect(head.axes[1]).toEqual({ name: 'tile', labels: [0, 1] });
});

test('scalars are as they were told: no row is added, Inf stays', () => {
  const units = { loss: 'nats/byte', valid_loss: '', grad_norm: '', lr: '', tokens_per_second: '' };
  const facts = [
    { step: 1, loss: 2.5, grad_norm: Infinity },
    { step: 9, loss: null, grad_norm: -Infinity },
  ];
  const [loss, , norm] = scalarArrays(facts, units);
  expect([loss.name, loss.text, loss.axes[0].labels]).toEqual([
    'loss',
    'nats/byte, by step',
    [1, 9],
  ]);
  expect([[...loss.data], [...norm.data]]).toEqual([
    [2.5, Number.NaN],
    [Infinity, -Infinity],
  ]);
  expect(scalarArrays([], units)).toEqual([]);
});
