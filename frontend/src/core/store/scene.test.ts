import { describe, expect, test } from 'vitest';
import { RingStore } from './ring_store';
import { makeRecord } from './test_records';
import { frameOf } from './test_query';

const kTwo = [1, 2, 1];

/** Two micro-batches of two rows of two tokens; the values are 10 × the global row + the token. */
function batches(): RingStore {
  const store = new RingStore(1e6);
  for (const microBatch of [1, 0]) {
    const firstRow = 4 * microBatch;
    const values = Float32Array.of(0, 1, 10, 11).map((value) => value + 10 * firstRow);
    store.insert(makeRecord({ microBatch, firstRow, shape: [2, 2, 1] }, values));
  }
  return store;
}

/** Adds the token ids 100 + position for the positions `first` to `first` + 2. */
function tokens(store: RingStore, header: object, first: number): void {
  const shape = [2, 1, 3];
  const ids = Int32Array.from({ length: 3 }, (_, i) => 100 + first + i);
  const positions = Int32Array.from({ length: 3 }, (_, i) => first + i);
  const record = { point: 8, layer: 0, entry: 1, compressor: 0, shape, ...header };
  store.insert(makeRecord(record, Int32Array.of(...ids, ...positions)));
}

describe('rows of a view', () => {
  test('are those of all micro-batches, by their place in the global batch', () => {
    const frame = frameOf(batches(), 'maps', { row: 3 });
    expect(frame.rowNames).toEqual([0, 1, 4, 5]);
    expect([...frame.layerMap.values]).toEqual([50, 51]);
    expect([...frameOf(batches(), 'maps', { row: 2 }).tileMap.values]).toEqual([40, 41]);
  });

  test('are the same row in every layer, or missing there', () => {
    const store = batches();
    store.insert(makeRecord({ layer: 2, firstRow: 4, microBatch: 1, shape: kTwo }, two(7, 8)));
    const other = frameOf(store, 'maps', { row: 2 });
    expect([...other.layerMap.values]).toEqual([40, 41, 7, 8]);
    expect([...frameOf(store, 'maps', { row: 0 }).layerMap.present]).toEqual([1, 0]);
  });
});

test('a view tells the entry of its plan that its records are of', () => {
  const store = new RingStore(1e6);
  store.insert(makeRecord({ entry: 5, plan: 1, shape: kTwo }, two(1, 2)));
  const { plan, entry } = frameOf(store, 'maps', { entry: 0, plan: 2 });
  expect([plan, entry]).toEqual([1, 5]);
});

describe('tokens of a view', () => {
  test('are matched by position: entry and InputTokens may take other windows', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({ shape: [1, 4, 1] }));
    tokens(store, {}, 2);
    const frame = frameOf(store, 'maps', { firstToken: 3 });
    expect([...frame.positions]).toEqual([3, 4, 5, 6]);
    expect([...(frame.tokens ?? [])]).toEqual([103, 104, -1, -1]);
  });

  test('are those of the shown row and prompt set', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({ shape: [2, 2, 1] }));
    tokens(store, { promptSet: 1, phase: 1 }, 0);
    expect(frameOf(store, 'maps').tokens).toBeNull();
    tokens(store, { firstRow: 1 }, 0);
    expect(frameOf(store, 'maps', { row: 0 }).tokens).toBeNull();
    expect([...(frameOf(store, 'maps', { row: 1 }).tokens ?? [])]).toEqual([100, 101]);
  });

  test('end where the prompt ends: the filling is not shown', () => {
    const store = new RingStore(1e6);
    const header = { promptSet: 1, phase: 1, shape: [2, 3, 1] };
    store.insert(makeRecord(header, Float32Array.of(1, 2, 3, 4, 0, 0)));
    const query = { promptSet: 1, lengths: [3, 1] };
    expect([...frameOf(store, 'maps', query).layerMap.values]).toEqual([1, 2, 3]);
    const short = frameOf(store, 'maps', { ...query, row: 1 });
    expect([...short.layerMap.values]).toEqual([4]);
    expect([short.rowKind, short.tileMap.cols]).toEqual(['prompt', 1]);
    expect(frameOf(store, 'maps', { ...query, row: 1, firstToken: 2 }).tileMap.cols).toBe(0);
  });
});

function two(first: number, second: number): Float32Array<ArrayBuffer> {
  return Float32Array.of(first, second);
}
