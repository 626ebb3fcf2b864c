import { describe, expect, test } from 'vitest';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';

describe('attention', () => {
  // Two rows, two heads, two queries, three keys.
  const header = { point: 2, compressor: 0, shape: [2, 2, 2, 3], features: 3 };
  const query = { point: 2 };
  const filled = (change: object = {}): RingStore => {
    const store = new RingStore(1e6);
    const values = Float32Array.from({ length: 24 }, (_, i) => i);
    store.insert(makeRecord({ ...header, ...change }, values));
    return store;
  };

  test('one head of one row: queries down, keys across', () => {
    const frame = frameOf(filled(), 'attention', { ...query, row: 1, head: 1 });
    expect([frame.heads, frame.head, frame.map.rows, frame.map.cols]).toEqual([2, 1, 2, 3]);
    expect([...frame.map.values]).toEqual([18, 19, 20, 21, 22, 23]);
    expect(frameOf(filled(), 'attention', { ...query, head: 9 }).head).toBe(1);
  });

  test('all heads stand beside it, small', () => {
    const { small } = frameOf(filled(), 'attention', { ...query, row: 1 });
    expect(small.map((map) => [...map.values])).toEqual([
      [12, 13, 14, 15, 16, 17],
      [18, 19, 20, 21, 22, 23],
    ]);
    const one = new RingStore(1e6);
    one.insert(makeRecord({ ...header, shape: [1, 1, 2, 3] }, new Float32Array(6)));
    expect(frameOf(one, 'attention', query).small).toEqual([]);
  });

  test('small heads are folded, whole ones hold every number', () => {
    const store = new RingStore(1e6);
    const numbers = Float32Array.from({ length: 2 * 128 * 100 }, (_, i) => i);
    const shape = [1, 2, 128, 100];
    store.insert(makeRecord({ ...header, shape, features: 100 }, numbers.slice()));
    const { small } = frameOf(store, 'attention', query);
    expect(small.map(({ rows, cols }) => [rows, cols])).toEqual([
      [96, 96],
      [96, 96],
    ]);
    const whole = frameOf(store, 'attention', query, 'whole').small;
    expect(whole.map(({ rows, cols }) => [rows, cols])).toEqual([
      [128, 100],
      [128, 100],
    ]);
    expect(whole[1].values).toEqual(numbers.subarray(128 * 100));
  });

  test('queries start at the window of the entry, keys at 0', () => {
    const frame = frameOf(filled(), 'attention', { ...query, firstToken: 1 });
    expect([...frame.queryPositions]).toEqual([1, 2]);
    expect([...frame.positions]).toEqual([0, 1, 2]);
  });

  test('a prompt ends before its filling, down and across', () => {
    const store = filled({ promptSet: 1 });
    const { map } = frameOf(store, 'attention', { ...query, promptSet: 1, lengths: [1, 3] });
    expect([map.rows, map.cols, ...map.values]).toEqual([1, 1, 0]);
  });

  test('tiles of keys are no tokens', () => {
    const store = filled({ compressor: 1, features: 12 });
    const tokens = { point: 8, layer: 0, compressor: 0, shape: [2, 1, 3] };
    store.insert(makeRecord(tokens, Int32Array.of(65, 66, 67, 0, 1, 2)));
    const frame = frameOf(store, 'attention', query);
    expect([...(frame.queryTokens ?? [])]).toEqual([65, 66]);
    expect([frame.keys, frame.map.cols, frame.tokens]).toEqual([12, 3, null]);
  });
});
