import { describe, expect, test } from 'vitest';
import { RingStore, type SeriesQuery } from './ring_store';
import { makeRecord } from './test_records';

const kQuery: SeriesQuery = {
  point: 7,
  entry: 0,
  plan: 1,
  phase: 0,
  direction: 0,
  promptSet: 0,
  form: 'values',
};
const kCost = 16 + 512;
const kStates = { point: 'HiddenStates', compressor: { kind: 'tile', tiles: 64 } };
const kFewTiles = { point: 'HiddenStates', compressor: { kind: 'tile', tiles: 8 } };

describe('RingStore', () => {
  test('forgets the oldest first and never holds more than its bytes', () => {
    const store = new RingStore(10 * kCost);
    for (let step = 1; step <= 25; step++) {
      store.insert(makeRecord({ step }));
      expect(store.bytes).toBeLessThanOrEqual(store.capacity);
    }
    expect(store.steps(kQuery)).toEqual([16, 17, 18, 19, 20, 21, 22, 23, 24, 25]);
    expect(store.records).toBe(10);
  });

  test('stays bounded over very many records', () => {
    const store = new RingStore(50 * kCost);
    for (let step = 1; step <= 20_000; step++) store.insert(makeRecord({ step, layer: step % 3 }));
    expect(store.records).toBe(50);
    expect(store.bytes).toBe(50 * kCost);
  });

  test('a record that comes twice is held once', () => {
    const store = new RingStore(10 * kCost);
    store.insert(makeRecord({ step: 3, sequence: 1 }));
    store.insert(makeRecord({ step: 3, sequence: 2 }));
    expect(store.bytes).toBe(kCost);
    expect(store.at(kQuery, 3)?.layers.get(1)?.[0].header.sequence).toBe(2);
  });

  test('a record larger than the store is left out', () => {
    const store = new RingStore(100);
    store.insert(makeRecord({}));
    expect(store.bytes).toBe(0);
  });

  test('the newest step shown is the newest of the fullest', () => {
    const store = new RingStore(1e6);
    for (const step of [1, 2]) {
      for (const layer of [1, 2, 3]) store.insert(makeRecord({ step, layer }));
    }
    store.insert(makeRecord({ step: 3, layer: 1 }));
    expect(store.newest(kQuery)?.step).toBe(2);
    store.insert(makeRecord({ step: 3, layer: 2 }));
    store.insert(makeRecord({ step: 3, layer: 3 }));
    expect(store.newest(kQuery)?.step).toBe(3);
  });

  test('a new plan shows at once, even with fewer layers', () => {
    const store = new RingStore(1e6);
    for (const layer of [1, 2, 3]) store.insert(makeRecord({ step: 1, layer, plan: 1 }));
    store.insert(makeRecord({ step: 2, layer: 2, plan: 2 }));
    expect(store.newest(kQuery)?.step).toBe(2);
  });

  test('another plan at the same step replaces what was there of the series', () => {
    const store = new RingStore(1e6);
    for (const number of [1, 2]) store.learn({ number, entries: [kStates] });
    store.insert(makeRecord({ step: 5, layer: 1, plan: 1 }));
    store.insert(makeRecord({ step: 5, layer: 2, plan: 2 }));
    expect([...(store.at(kQuery, 5)?.layers.keys() ?? [])]).toEqual([2]);
    expect(store.bytes).toBe(kCost);
  });

  test('phases, points, directions, prompt sets and forms are kept apart', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({ step: 1 }));
    store.insert(makeRecord({ step: 2, phase: 1 }));
    store.insert(makeRecord({ step: 3, point: 4 }));
    store.insert(makeRecord({ step: 4, direction: 1 }));
    store.insert(makeRecord({ step: 5, phase: 1, promptSet: 2 }));
    store.insert(makeRecord({ step: 6, compressor: 3 }));
    expect(store.steps(kQuery)).toEqual([1]);
    expect(store.steps({ ...kQuery, direction: 1 })).toEqual([4]);
    expect(store.steps({ ...kQuery, form: 'stats' })).toEqual([6]);
    // Passes over prompts have no phase.
    expect(store.steps({ ...kQuery, promptSet: 2 })).toEqual([5]);
  });

  test('another entry of the point will do, but only under another plan', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({ step: 1, entry: 5, plan: 1 }));
    store.insert(makeRecord({ step: 2, entry: 5, plan: 2 }));
    store.insert(makeRecord({ step: 3, entry: 0, plan: 2 }));
    expect(store.steps({ ...kQuery, plan: 2 })).toEqual([1, 3]);
    expect(store.at({ ...kQuery, plan: 2 }, 1)?.layers.get(1)?.[0].header.entry).toBe(5);
    expect(store.at({ ...kQuery, plan: 2 }, 2)).toBeUndefined();
  });

  test('a series goes on where its entry has another number, and only it', () => {
    const store = new RingStore(1e6);
    store.learn({ number: 1, entries: [kStates, kFewTiles] });
    store.learn({ number: 2, entries: [kFewTiles, kStates] });
    for (const entry of [0, 1]) {
      for (const plan of [1, 2]) store.insert(makeRecord({ step: plan, plan, entry }));
    }
    const query = { ...kQuery, plan: 2, entry: 1 };
    const entriesOf = (step: number): readonly number[] =>
      store.allAt(query, step).map(({ layers }) => layers.get(1)?.[0].header.entry ?? -1);
    // Under another plan, other series of the kind are also returned, after the wanted series.
    expect([entriesOf(1), entriesOf(2)]).toEqual([[0, 1], [1]]);
    expect(store.atEach(query, [1, 2]).map(({ plan }) => plan)).toEqual([1, 2]);
    expect(store.stepsOfSeries(query)).toEqual([1, 2]);
    store.learn({ number: 3, entries: [{ ...kStates, every: 2 }] });
    expect(store.stepsOfSeries({ ...kQuery, plan: 3, entry: 0 })).toEqual([1, 2]);
    expect(store.stepsOfSeries({ ...kQuery, plan: 4, entry: 0 })).toEqual([]);
  });

  test('records that come before their plan join their series when it is known', () => {
    const store = new RingStore(20 * kCost);
    store.learn({ number: 2, entries: [kFewTiles, kStates] });
    const query = { ...kQuery, plan: 2, entry: 1 };
    for (let step = 1; step <= 15; step++) store.insert(makeRecord({ step, plan: 1 }), true);
    for (let step = 15; step <= 18; step++) {
      store.insert(makeRecord({ step, plan: 2, entry: 1 }));
    }
    expect(store.stepsOfSeries(query)).toEqual([15, 16, 17, 18]);
    store.learn({ number: 1, entries: [kStates] });
    expect(store.stepsOfSeries(query).length).toBe(18);
    expect([store.records, store.bytes]).toEqual([18, 18 * kCost]);
    expect(store.at(query, 3)?.fetched).toBe(true);
    for (let step = 19; step <= 30; step++) store.insert(makeRecord({ step, plan: 2, entry: 1 }));
    expect([store.records, store.bytes]).toEqual([20, 20 * kCost]);
    expect(store.stepsOfSeries(query)[0]).toBe(11);
    store.clear();
    expect(store.keyOf({ plan: 1, entry: 0 })).not.toBe(store.keyOf({ plan: 2, entry: 1 }));
  });

  test('a series of which nothing is left costs nothing', () => {
    const store = new RingStore(10 * kCost);
    for (let plan = 1; plan <= 3000; plan++) store.insert(makeRecord({ step: plan, plan }));
    expect(objectsIn(store).size).toBeLessThan(10_000);
  });

  test('micro-batches of a layer stand side by side, in their order', () => {
    const store = new RingStore(10 * kCost);
    for (const microBatch of [2, 0, 1, 2]) store.insert(makeRecord({ microBatch }));
    const parts = store.at(kQuery, 1)?.layers.get(1) ?? [];
    expect(parts.map(({ header }) => header.microBatch)).toEqual([0, 1, 2]);
    expect([store.records, store.bytes]).toEqual([3, 3 * kCost]);
    for (let step = 2; step <= 10; step++) store.insert(makeRecord({ step }));
    expect(store.records).toBe(10);
    expect(store.bytes).toBe(10 * kCost);
  });

  test('what was fetched from the history says so', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({ step: 1 }), true);
    store.insert(makeRecord({ step: 2 }));
    store.insert(makeRecord({ step: 2, layer: 2 }), true);
    expect([1, 2].map((step) => store.at(kQuery, step)?.fetched)).toEqual([true, false]);
  });

  test('lets go of the payload of what it forgets or replaces', () => {
    const store = new RingStore(10 * kCost);
    for (let step = 1; step <= 25; step++) store.insert(makeRecord({ step }));
    expect(payloadsIn(store)).toBe(10);
    for (let time = 1; time <= 5; time++) store.insert(makeRecord({ step: 20 }));
    expect(payloadsIn(store)).toBe(10);
    store.insert(makeRecord({ step: 20, plan: 2 }));
    expect(payloadsIn(store)).toBe(10);
    expect(store.bytes).toBe(10 * kCost);
  });

  test('what is replaced stands last in the order of arrival', () => {
    const store = new RingStore(3 * kCost);
    for (const step of [1, 2, 3, 1, 4, 5]) store.insert(makeRecord({ step }));
    expect(store.steps(kQuery)).toEqual([1, 4, 5]);
  });

  test('steps that come again and again cost no memory', () => {
    const store = new RingStore(10 * kCost);
    for (let time = 0; time < 5000; time++) store.insert(makeRecord({ step: time % 5 }));
    expect(objectsIn(store).size).toBeLessThan(10_000);
  });

  test('clear leaves nothing', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({}));
    store.clear();
    expect([store.bytes, store.records]).toEqual([0, 0]);
    expect(store.newest(kQuery)).toBeUndefined();
  });
});

/** All objects that the store references, so that the garbage collector has to keep them. */
function objectsIn(store: RingStore): Set<object> {
  const seen = new Set<object>();
  const left: unknown[] = [store];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value !== 'object' || value === null || seen.has(value)) continue;
    seen.add(value);
    if (value instanceof Map) left.push(...value.keys(), ...value.values());
    else left.push(...(Object.values(value) as unknown[]));
  }
  return seen;
}

function payloadsIn(store: RingStore): number {
  return [...objectsIn(store)].filter((value) => value instanceof Uint8Array).length;
}
