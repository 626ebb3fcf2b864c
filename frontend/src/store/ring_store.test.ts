import { describe, expect, test } from 'vitest';
import { RingStore } from './ring_store';
import { makeRecord } from './test_records';

const kQuery = { point: 7, entry: 0, phase: 0, direction: 0 };
const kCost = 16 + 512;

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
    expect(store.at(kQuery, 3)?.records.get(1)?.header.sequence).toBe(2);
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

  test('another plan at the same step replaces what was there', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({ step: 5, layer: 1, plan: 1 }));
    store.insert(makeRecord({ step: 5, layer: 2, plan: 2 }));
    expect([...(store.at(kQuery, 5)?.records.keys() ?? [])]).toEqual([2]);
    expect(store.bytes).toBe(kCost);
  });

  test('phases and points are kept apart; another entry of the point will do', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({ step: 1, phase: 1 }));
    store.insert(makeRecord({ step: 2, point: 4 }));
    store.insert(makeRecord({ step: 3, entry: 5 }));
    expect(store.steps(kQuery)).toEqual([3]);
    expect(store.at(kQuery, 3)?.records.get(1)?.header.entry).toBe(5);
  });

  test('clear leaves nothing', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({}));
    store.clear();
    expect([store.bytes, store.records]).toEqual([0, 0]);
    expect(store.newest(kQuery)).toBeUndefined();
  });
});
