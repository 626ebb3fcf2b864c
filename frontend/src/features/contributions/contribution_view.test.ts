import { expect, test } from 'vitest';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';

test('what a block adds by layer, by token and over the steps; the filling of a prompt does not count', () => {
  const store = new RingStore(1e6);
  const header = { point: 50, compressor: 0, shape: [1, 3, 1], features: 1 };
  for (const [step, layer] of [
    [1, 1],
    [2, 1],
    [2, 3],
  ]) {
    store.insert(makeRecord({ ...header, step, layer }, Float32Array.of(step, 3 * layer, 99)));
  }
  const query = { point: 50, pointName: 'mlp.contribution', lengths: [2] };
  const frame = frameOf(store, 'contribution', query);
  expect(frame.layers).toEqual([1, 2, 3]);
  expect([...frame.byLayer]).toEqual([2.5, Number.NaN, 5.5]);
  expect([...frame.tokenMap.values]).toEqual([2, 3, 0, 0, 2, 9]);
  expect([...frame.tokenMap.present]).toEqual([1, 0, 1]);
  const { pinned } = frameOf(store, 'contribution', { ...query, pin: { col: 1, cell: 4 } });
  expect(pinned).toMatchObject({
    ...{ value: 3, overColumns: [2, 3], overLayers: [3, null, 9] },
    ...{ steps: [1, 2], overSteps: [3, 3] },
  });
  const values = [
    [2, 2.5],
    [null, null],
    [null, 5.5],
  ];
  expect(frame.overSteps).toEqual({ steps: [1, 2], values });
});
