import { describe, expect, test } from 'vitest';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';

describe('projection', () => {
  // Two prompts of at most three tokens on two vectors.
  const header = { compressor: 4, promptSet: 1, phase: 1, shape: [2, 3, 2] };
  const query = { form: 'projection' as const, promptSet: 1 };
  const values = Float32Array.of(1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 0, 0);
  const filled = (): RingStore => {
    const store = new RingStore(1e6);
    for (const step of [5, 10]) store.insert(makeRecord({ ...header, step }, values.slice()));
    return store;
  };

  test('layers by tokens on the chosen vector', () => {
    const frame = frameOf(filled(), 'projection', { ...query, vector: 1 });
    expect([frame.vectors, frame.vector]).toEqual([2, 1]);
    expect([...frame.layerMap.values]).toEqual([10, 20, 30]);
    expect(frameOf(filled(), 'projection', { ...query, vector: 7 }).vector).toBe(1);
  });

  test('the last token and the mean over the steps, by layer', () => {
    const { history } = frameOf(filled(), 'projection', query);
    expect(history.steps).toEqual([5, 10]);
    expect(history.lines).toEqual({ last: [[3, 3]], mean: [[2, 2]] });
  });

  test('of a short prompt its own last token, not the filling', () => {
    const lengths = [3, 2];
    const short = frameOf(filled(), 'projection', { ...query, lengths, row: 1, vector: 1 });
    expect(short.history.lines).toEqual({ last: [[50, 50]], mean: [[45, 45]] });
    // The kept sums of a record are used only for the lengths that they were computed for.
    const store = filled();
    frameOf(store, 'projection', { ...query, row: 1 });
    const again = frameOf(store, 'projection', { ...query, lengths, row: 1 });
    expect(again.history.lines).toEqual({ last: [[5, 5]], mean: [[4.5, 4.5]] });
  });
});
