import { describe, expect, test } from 'vitest';
import { RingStore } from './ring_store';
import { makeRecord } from './test_records';
import { frameOf, kTestQuery } from './test_query';
import { buildView } from './view';

function filled(): RingStore {
  const store = new RingStore(1e6);
  // Two rows of two tokens with two tiles each.
  const shape = [2, 2, 2];
  store.insert(makeRecord({ step: 4, layer: 1, shape }, Float32Array.of(1, 3, -5, 1, 9, 9, 9, 9)));
  store.insert(
    makeRecord({ step: 4, layer: 3, shape }, Float32Array.of(0, 0, 1, Number.NaN, 7, 7, 7, 7)),
  );
  store.insert(
    makeRecord(
      { step: 4, point: 8, layer: 0, entry: 1, shape: [2, 2, 2] },
      Int32Array.of(65, 66, 67, 68, 0, 1, 0, 1),
    ),
  );
  return store;
}

describe('buildView', () => {
  test('a gap is no picture of another step, and waiting shows the nearest', () => {
    const query = { ...kTestQuery, step: 2 };
    expect(buildView(filled(), query, 'gap')).toMatchObject({
      empty: { reason: 'gap', steps: [4] },
    });
    expect(buildView(filled(), query, 'fetching')).toMatchObject({ frame: { step: 4 } });
    const nothing = buildView(new RingStore(1e6), query, 'fetching');
    expect(nothing).toMatchObject({ empty: { reason: 'fetching' } });
  });

  test('a replay shows nothing that it has not come to', () => {
    const store = filled();
    for (const layer of [1, 2, 3]) store.insert(makeRecord({ step: 9, layer }));
    expect(frameOf(store, 'maps').step).toBe(9);
    const { step, steps } = frameOf(store, 'maps', { until: 8 });
    expect([step, steps]).toEqual([4, [4]]);
  });

  test('the layer map folds tiles, and shows a missing layer as missing', () => {
    const { layers, layerMap } = frameOf(filled(), 'maps');
    expect(layers).toEqual([1, 2, 3]);
    expect([...layerMap.present]).toEqual([1, 0, 1]);
    expect([...layerMap.values]).toEqual([2, -2, 0, 0, 0, Number.NaN]);
    expect(layerMap.stats).toMatchObject({ nan: 1, min: -2, max: 2, finite: 3 });
  });

  test('largest |x| instead of the mean', () => {
    const { layerMap } = frameOf(filled(), 'maps', { aggregate: 'absmax' });
    expect([...layerMap.values]).toEqual([3, 5, 0, 0, 0, Number.NaN]);
  });

  test('the tile map is transposed to tiles by tokens', () => {
    const { tileMap, layer } = frameOf(filled(), 'maps');
    expect(layer).toBe(1);
    expect([...tileMap.values]).toEqual([1, -5, 3, 1]);
  });

  test('another batch row, with its own tokens', () => {
    const frame = frameOf(filled(), 'maps', { row: 1, layer: 3 });
    expect([...frame.tileMap.values]).toEqual([7, 7, 7, 7]);
    expect(frame.tokens).toEqual(Int32Array.of(67, 68));
    expect(frame.positions).toEqual(Int32Array.of(0, 1));
  });

  test('a layer that was not captured gives way to the nearest', () => {
    expect(frameOf(filled(), 'maps', { layer: 9 }).layer).toBe(3);
  });

  test('a step of the past, or the nearest that is kept', () => {
    const store = filled();
    store.insert(makeRecord({ step: 8 }));
    expect(frameOf(store, 'maps').step).toBe(4);
    expect(frameOf(store, 'maps', { step: 8 }).step).toBe(8);
    expect(frameOf(store, 'maps', { step: 99 }).step).toBe(8);
    expect(frameOf(store, 'maps', { step: 8 }).tokens).toBeNull();
  });

  test('nothing kept, or nothing readable, is said so', () => {
    expect(buildView(new RingStore(10), kTestQuery)).toMatchObject({ empty: { reason: 'none' } });
    const store = new RingStore(1e6);
    store.insert(makeRecord({ dtype: 77 }));
    expect(buildView(store, kTestQuery)).toMatchObject({
      empty: { reason: 'unreadable', dtype: 77 },
    });
  });

  test('a compressor or a shape of a later version is named, not drawn', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({ compressor: 9 }));
    expect(buildView(store, { ...kTestQuery, form: 'other' })).toMatchObject({
      empty: { reason: 'unreadable', compressor: 9, shape: [1, 2, 2] },
    });
    store.insert(makeRecord({ layer: 2, shape: [4] }));
    expect(buildView(store, { ...kTestQuery, layer: 2 })).toMatchObject({
      empty: { reason: 'unreadable', shape: [4] },
    });
  });

  test('a layer with fewer tokens than the one shown counts as not captured', () => {
    const store = filled();
    store.insert(makeRecord({ step: 4, layer: 2, shape: [1, 1, 2] }, Float32Array.of(4, 6)));
    expect([...frameOf(store, 'maps').layerMap.present]).toEqual([1, 0, 1]);
  });

  test('records of no numbers tell which layers were passed', () => {
    const store = new RingStore(1e6);
    for (const layer of [3, 1]) {
      store.insert(makeRecord({ layer, compressor: 2, shape: [1, 2, 0] }, new Float32Array(0)));
    }
    expect(frameOf(store, 'passed', { form: 'empty' })).toMatchObject({ passed: [1, 3], step: 1 });
  });

  test('a point outside the layers has a map of one row', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({ layer: 0, point: 20 }, Float32Array.of(1, 3, 5, 7)));
    const frame = frameOf(store, 'maps', { point: 20 });
    expect([frame.layer, frame.layers]).toEqual([0, [0]]);
    expect([...frame.layerMap.values]).toEqual([2, 6]);
  });
});
