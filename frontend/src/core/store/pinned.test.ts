import { describe, expect, test } from 'vitest';
import { toggled } from './pin';
import { RingStore } from './ring_store';
import { frameOf } from './test_query';
import { makeRecord } from './test_records';

describe('a pinned cell of tiles', () => {
  // Two rows of two tokens with two tiles each.
  const shape = [2, 2, 2];

  function filled(): RingStore {
    const store = new RingStore(1e6);
    for (const [step, layer] of [
      [1, 1],
      [2, 1],
      [2, 3],
    ]) {
      const numbers = Float32Array.from({ length: 8 }, (_, i) => 100 * step + 10 * layer + i);
      store.insert(makeRecord({ step, layer, shape }, numbers));
    }
    return store;
  }

  test('tells its value over the tokens, the layers and the steps', () => {
    const { pinned } = frameOf(filled(), 'maps', { row: 1, pin: { col: 1, cell: 0 } });
    expect(pinned?.value).toBe(216);
    expect(pinned?.overColumns).toEqual([214, 216]);
    expect(pinned?.overLayers).toEqual([216, null, 236]);
    expect([pinned?.steps, pinned?.overSteps]).toEqual([
      [1, 2],
      [116, 216],
    ]);
  });

  test('of a layer without a tile is the summary of the token', () => {
    const pin = { col: 0, cell: null };
    expect(frameOf(filled(), 'maps', { pin }).pinned?.overSteps).toEqual([110.5, 210.5]);
    const { pinned } = frameOf(filled(), 'maps', { pin, aggregate: 'absmax' });
    expect(pinned?.value).toBe(211);
  });

  test('does not exist where the map has no such cell, and without a pin', () => {
    expect(frameOf(filled(), 'maps', { pin: { col: 2, cell: 0 } }).pinned).toBeNull();
    expect(frameOf(filled(), 'maps', { pin: { col: 0, cell: 2 } }).pinned).toBeNull();
    expect(frameOf(filled(), 'maps').pinned).toBeNull();
  });
});

test('a pinned query and key of one head of attention', () => {
  const store = new RingStore(1e6);
  const header = { point: 2, compressor: 0, shape: [1, 2, 2, 3], features: 3 };
  const numbers = Float32Array.from({ length: 12 }, (_, i) => i);
  store.insert(makeRecord({ ...header, step: 1 }, numbers.slice()));
  store.insert(
    makeRecord(
      { ...header, step: 5 },
      numbers.map((value) => value + 50),
    ),
  );
  const query = { point: 2, head: 1, pin: { col: 2, cell: 1 } };
  const { pinned } = frameOf(store, 'attention', query);
  expect(pinned?.value).toBe(61);
  expect(pinned?.overColumns).toEqual([59, 60, 61]);
  expect(pinned?.overSteps).toEqual([11, 61]);
});

test('a pinned projection and a pinned rank', () => {
  const store = new RingStore(1e6);
  const shape = [1, 2, 2];
  store.insert(makeRecord({ compressor: 4, shape }, Float32Array.of(1, 2, 3, 4)));
  const projection = { form: 'projection', vector: 1, pin: { col: 1, cell: null } } as const;
  expect(frameOf(store, 'projection', projection).pinned?.overColumns).toEqual([2, 4]);
  const best = new RingStore(1e6);
  const ranks = Float32Array.of(9, 8, 7, 6, 0, 1, 2, 3);
  best.insert(makeRecord({ compressor: 5, shape: [2, 1, 2, 2] }, ranks));
  const topk = { form: 'topk', pin: { col: 0, cell: 1 } } as const;
  expect(frameOf(best, 'topk', topk).pinned?.overColumns).toEqual([8, 6]);
});

test('a click on the pinned cell lets it go', () => {
  expect(toggled(null, 3, 4)).toEqual({ col: 3, cell: 4 });
  expect(toggled({ col: 3, cell: 4 }, 3, 4)).toBeNull();
  expect(toggled({ col: 3, cell: 4 }, 3, null)).toEqual({ col: 3, cell: null });
});
