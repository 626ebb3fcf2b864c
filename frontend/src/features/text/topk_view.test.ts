import { describe, expect, test } from 'vitest';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';
import { bestOf } from './topk_view';

describe('topk', () => {
  test('the best of every token, with their columns', () => {
    const store = new RingStore(1e6);
    // Values of two rows of two tokens, then the columns.
    const values = [9, 8, 7, 6, 5, 4, 3, Number.NaN];
    const ids = [101, 102, 103, 104, 105, 106, 107, 108];
    const header = { point: 23, layer: 0, compressor: 5, shape: [2, 2, 2, 2] };
    store.insert(makeRecord(header, Float32Array.of(...values, ...ids)));
    const query = { point: 23, form: 'topk' as const };
    const frame = frameOf(store, 'topk', query);
    expect([frame.map.rows, frame.map.cols]).toEqual([2, 2]);
    expect([...frame.map.values]).toEqual([9, 7, 8, 6]);
    expect([...frame.ids]).toEqual([101, 103, 102, 104]);
    expect(bestOf(frame, 1)).toEqual([
      { rank: 0, id: 103, value: 7 },
      { rank: 1, id: 104, value: 6 },
    ]);
    expect(bestOf(frame, 2)).toEqual([]);
    expect(bestOf(frameOf(store, 'topk', { ...query, row: 1 }), 0)[0].id).toBe(105);
  });
});
