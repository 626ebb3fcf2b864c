import { describe, expect, test } from 'vitest';
import { columnsOf } from './over_view';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';

// Two rows of two tokens with two tiles.
const shape = [2, 2, 2];

describe('all layers', () => {
  function filled(): RingStore {
    const store = new RingStore(1e6);
    store.insert(makeRecord({ layer: 1, shape }, Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8)));
    store.insert(makeRecord({ layer: 3, shape }, Float32Array.of(0, 0, 0, 0, -5, 0, 0, 9)));
    return store;
  }

  test('tiles × tokens of each, and none where nothing was captured', () => {
    const { layers, maps, tiles } = frameOf(filled(), 'layers', { layout: 'all', row: 1 });
    expect([layers, tiles]).toEqual([[1, 2, 3], 2]);
    expect(maps.map((map) => map && [...map.values])).toEqual([[5, 7, 6, 8], null, [-5, 0, 0, 9]]);
    expect(maps[2]?.stats.absMax).toBe(9);
  });

  test('small maps are folded, whole ones hold every number', () => {
    const [tokens, tiles] = [400, 200];
    const store = new RingStore(1e6);
    const numbers = Float32Array.from({ length: tokens * tiles }, (_, i) => i + 1);
    store.insert(makeRecord({ shape: [1, tokens, tiles] }, numbers.slice()));
    const [shown] = frameOf(store, 'layers', { layout: 'all' }).maps;
    expect([shown?.rows, shown?.cols]).toEqual([160, 320]);
    const [whole] = frameOf(store, 'layers', { layout: 'all' }, 'whole').maps;
    expect([whole?.rows, whole?.cols]).toEqual([tiles, tokens]);
    const sent = Float32Array.from(
      numbers,
      (_, i) => numbers[(i % tokens) * tiles + Math.floor(i / tokens)],
    );
    expect(whole?.values).toEqual(sent);
  });

  test('of a prompt its own tokens', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({ promptSet: 1, shape }, Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8)));
    const query = { layout: 'all', promptSet: 1, lengths: [1, 2] } as const;
    const { maps } = frameOf(store, 'layers', query);
    expect(maps.map((map) => map && [map.rows, map.cols, ...map.values])).toEqual([[2, 1, 1, 2]]);
  });
});

describe('over the steps', () => {
  function filled(): RingStore {
    const store = new RingStore(1e6);
    for (const step of [2, 4, 10]) {
      const numbers = [step, -1, 0, 1, 0, 0, 0, 0];
      store.insert(makeRecord({ step, layer: 1, shape }, Float32Array.from(numbers)));
    }
    store.insert(
      makeRecord({ step: 10, layer: 2, shape }, Float32Array.of(0, -3, 0, 0, 0, 0, 0, 0)),
    );
    return store;
  }

  test('one number of each layer and step, gaps between', () => {
    const frame = frameOf(filled(), 'over', { layout: 'over', aggregate: 'absmax' });
    expect(frame.columns).toEqual([2, 4, 6, 8, 10]);
    expect([frame.map.rows, frame.map.cols]).toEqual([2, 5]);
    expect([...frame.map.values]).toEqual([2, 4, 0, 0, 10, 0, 0, 0, 0, 3]);
    expect([...(frame.map.absent ?? [])]).toEqual([0, 0, 1, 1, 0, 1, 1, 1, 1, 0]);
    expect(frame.map.stats).toMatchObject({ finite: 4, min: 2, max: 10 });
  });

  test('more steps than a screen has pixels for are thinned out, but not of a whole view', () => {
    const store = new RingStore(1e7);
    for (let step = 1; step <= 2500; step++) {
      store.insert(makeRecord({ step, shape }, new Float32Array(8).fill(step)));
    }
    const shown = frameOf(store, 'over', { layout: 'over' });
    expect(shown.columns.length).toBeLessThanOrEqual(1000);
    const whole = frameOf(store, 'over', { layout: 'over' }, 'whole');
    expect(whole.columns).toEqual(Array.from({ length: 2500 }, (_, i) => i + 1));
    expect([...whole.map.values]).toEqual(whole.columns);
  });

  test('a column of several steps shows the number farthest from 0, and its step', () => {
    const store = new RingStore(1e7);
    for (let step = 1; step <= 2500; step++) {
      store.insert(makeRecord({ step, shape }, new Float32Array(8).fill(step === 1203 ? -9 : 1)));
    }
    const { map, stepOf } = frameOf(store, 'over', { layout: 'over' });
    expect(map.stats.min).toBe(-9);
    expect(stepOf[map.values.indexOf(-9)]).toBe(1203);
  });

  test('the mean is over all rows, tokens and tiles', () => {
    const { map } = frameOf(filled(), 'over', { layout: 'over' });
    expect([...map.values].slice(0, 2)).toEqual([2 / 8, 4 / 8]);
  });

  test('micro-batches count together, filling not at all', () => {
    const store = new RingStore(1e6);
    const header = { promptSet: 1, shape: [1, 2, 1] };
    store.insert(makeRecord(header, Float32Array.of(1, 100)));
    store.insert(makeRecord({ ...header, microBatch: 1, firstRow: 1 }, Float32Array.of(2, 6)));
    const query = { layout: 'over', promptSet: 1, lengths: [1, 2] } as const;
    expect([...frameOf(store, 'over', query).map.values]).toEqual([3]);
    const absmax = frameOf(store, 'over', { ...query, aggregate: 'absmax' });
    expect([...absmax.map.values]).toEqual([6]);
  });

  test('a NaN anywhere is a NaN', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({ shape }, Float32Array.of(1, Number.NaN, 9, 0, 0, 0, 0, 0)));
    for (const aggregate of ['mean', 'absmax'] as const) {
      const { map } = frameOf(store, 'over', { layout: 'over', aggregate });
      expect(map.values[0]).toBeNaN();
      expect(map.stats.nan).toBe(1);
    }
  });

  test('columns: every missing step while they fit, else one for a gap', () => {
    expect(columnsOf([1, 2, 5], 1, 1000)).toEqual([1, 2, 3, 4, 5]);
    expect(columnsOf([1, 2, 4, 5000], 1, 1000)).toEqual([1, 2, 4, 5, 5000]);
    expect(columnsOf([7], 1, 1000)).toEqual([7]);
    expect(columnsOf([], 1, 1000)).toEqual([]);
  });
});
