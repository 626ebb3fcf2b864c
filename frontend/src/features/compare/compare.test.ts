import { expect, test } from 'vitest';
import { compareFrames } from './compare';
import { type FramePair, ofLayers, pairOf } from '../../core/store/frame_pair';
import type { ViewFrame } from '../../core/store/frames';
import { type MapData, statsOf } from '../../core/store/map_data';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';

function mapOf(rows: number, cols: number, numbers: readonly number[], lost?: number): MapData {
  const values = Float32Array.from(numbers);
  const present = Uint8Array.from({ length: rows }, (_, row) => Number(row !== lost));
  return { rows, cols, values, present, stats: statsOf(values, present, cols) };
}

function pairFrom(a: ViewFrame, b: ViewFrame): FramePair {
  const compared = compareFrames(a, b);
  if (compared.pair === null) throw new Error(compared.reason);
  return compared.pair;
}

function reasonOf(a: ViewFrame, b: ViewFrame): string {
  const compared = compareFrames(a, b);
  return compared.pair === null ? compared.reason : '';
}

test('A − B keeps NaN and Inf apart and leaves out rows that one side lacks', () => {
  const a = mapOf(2, 3, [1, Number.NaN, Infinity, 4, 5, 6]);
  const b = mapOf(2, 3, [0.5, 1, Infinity, 1, 1, 1], 1);
  const { difference } = pairOf(a, b);
  expect([...difference.values.slice(0, 3)]).toEqual([0.5, Number.NaN, Number.NaN]);
  expect([...difference.present]).toEqual([1, 0]);
  expect(difference.stats).toMatchObject({ absMax: 0.5, nan: 2, finite: 1 });
});

test('layers are aligned by their number', () => {
  const map = mapOf(2, 2, [1, 2, 3, 4]);
  const aligned = ofLayers(map, [2, 3], [1, 2, 3]);
  expect([...aligned.values]).toEqual([0, 0, 1, 2, 3, 4]);
  expect([...aligned.present]).toEqual([0, 1, 1]);
  expect(ofLayers(map, [2, 3], [2, 3])).toBe(map);
});

test('two steps of maps: every cell is a difference', () => {
  const store = new RingStore(1e6);
  store.insert(makeRecord({ step: 1 }, Float32Array.from([1, 2, 3, 4])));
  store.insert(makeRecord({ step: 2 }, Float32Array.from([1.5, 2, 2, 4])));
  const [a, b] = [2, 1].map((step) => frameOf(store, 'maps', { step }));
  const pair = pairFrom(a, b);
  if (pair.kind !== 'maps') throw new Error(pair.kind);
  // Rows: tiles; columns: tokens.
  expect([...pair.tileMaps.difference.values]).toEqual([0.5, -1, 0, 0]);
  expect([...pair.layerMaps.difference.values]).toEqual([0.25, -0.5]);
  expect(pair.sameTokens).toBeNull();
});

test('what has no difference is said', () => {
  const store = new RingStore(1e6);
  store.insert(makeRecord({ step: 1 }));
  store.insert(makeRecord({ step: 2, shape: [1, 1, 4] }));
  store.insert(makeRecord({ step: 3, compressor: 0 }));
  store.insert(makeRecord({ step: 4, features: 16 }));
  store.insert(makeRecord({ step: 5, layer: 2 }));
  const at = (step: number): ViewFrame => frameOf(store, 'maps', { step });
  expect(reasonOf(at(1), at(2))).toContain('A is 2 tiles × 2 tokens, B 4 tiles × 1 tokens');
  expect(reasonOf(at(1), at(3))).toContain('A: tile as f32. B: none as f32.');
  expect(reasonOf(at(1), at(4))).toContain('8 columns in A and 16 in B');
  expect(reasonOf(at(1), at(5))).toContain('The nearest layer in A is 1');
  expect(reasonOf(at(1), at(1))).toBe('');
});

test('statistics and the best columns', () => {
  const store = new RingStore(1e6);
  const stats = (mean: number): Float32Array<ArrayBuffer> =>
    Float32Array.from([9, mean, 1, 0, 0, 0, 0, 0, 0, 0, 5]);
  store.insert(makeRecord({ step: 1, compressor: 3, shape: [11] }, stats(0.25)));
  store.insert(makeRecord({ step: 2, compressor: 3, shape: [11] }, stats(1)));
  const pair = pairFrom(
    frameOf(store, 'stats', { step: 2, form: 'stats' }),
    frameOf(store, 'stats', { step: 1, form: 'stats' }),
  );
  if (pair.kind !== 'stats') throw new Error(pair.kind);
  expect(pair.tables.difference[1]).toBe(0.75);

  const topk = (ids: number[]): Float32Array<ArrayBuffer> =>
    Float32Array.from([7, 6, 5, 4, ...ids]);
  const shape = [2, 1, 2, 2];
  store.insert(makeRecord({ step: 1, compressor: 5, shape }, topk([40, 41, 50, 51])));
  store.insert(makeRecord({ step: 2, compressor: 5, shape }, topk([40, 42, 51, 50])));
  const best = pairFrom(
    frameOf(store, 'topk', { step: 2, form: 'topk' }),
    frameOf(store, 'topk', { step: 1, form: 'topk' }),
  );
  if (best.kind !== 'topk') throw new Error(best.kind);
  expect(best.changed).toEqual([{ col: 1, a: { id: 51, value: 5 }, b: { id: 50, value: 5 } }]);
});
