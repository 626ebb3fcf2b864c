import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { TensorRecord } from '../../protocol/record';
import { type BeforeAfter, beforeAfterOf } from './before_after';
import { readRecords } from './preview_records';
import { makeRecord } from '../../core/store/test_records';

/** A record of two tokens with two tiles each, token by token. */
function layerOf(layer: number, numbers: readonly number[]): TensorRecord {
  return makeRecord({ layer, step: 12, phase: 1 }, Float32Array.from(numbers));
}

function mapsOf(off: readonly TensorRecord[], on: readonly TensorRecord[]): BeforeAfter {
  const read = beforeAfterOf(off, on);
  if (read.maps === null) throw new Error(read.reason);
  return read.maps;
}

function reasonOf(off: readonly TensorRecord[], on: readonly TensorRecord[]): string {
  const read = beforeAfterOf(off, on);
  return read.maps === null ? read.reason : '';
}

const kOff = [layerOf(1, [1, 2, 3, 4]), layerOf(2, [0, 0, 1, 1])];

test('how far it reaches: the root mean square over the tiles of each layer and token', () => {
  const maps = mapsOf(kOff, [layerOf(1, [1, 2, 3, 4]), layerOf(2, [3, -4, 1, 3])]);
  expect(maps.layers).toEqual([1, 2]);
  expect([maps.step, maps.point, maps.tiles, maps.unchanged]).toEqual([12, 7, 2, false]);
  const { off, on, difference } = maps.reach;
  const root = Math.sqrt;
  expect([...difference.values]).toEqual([0, 0, root(25 / 2), root(4 / 2)]);
  expect([...off.values]).toEqual([root(5 / 2), root(25 / 2), 0, 1]);
  expect([...on.values]).toEqual([root(5 / 2), root(25 / 2), root(25 / 2), root(10 / 2)]);
  expect(difference.stats.absMax).toBe(root(25 / 2));
  expect([difference.rows, difference.cols]).toEqual([2, 2]);
});

test('one layer: tiles down, tokens across, and on − off', () => {
  const maps = mapsOf(kOff, [kOff[0], layerOf(2, [3, -4, 1, 3])]);
  const [, tiles] = maps.tileMaps;
  expect([...(tiles?.off.values ?? [])]).toEqual([0, 1, 0, 1]);
  expect([...(tiles?.on.values ?? [])]).toEqual([3, 1, -4, 3]);
  expect([...(tiles?.difference.values ?? [])]).toEqual([3, 0, -4, 2]);
});

test('a program that changes nothing is told by the numbers, NaN and Inf included', () => {
  const odd = [layerOf(1, [Number.NaN, Infinity, -0, 1])];
  expect(mapsOf(odd, [layerOf(1, [Number.NaN, Infinity, 0, 1])]).unchanged).toBe(true);
  expect(mapsOf(odd, [layerOf(1, [Number.NaN, -Infinity, 0, 1])]).unchanged).toBe(false);
  expect(mapsOf(odd, [layerOf(1, [0, Infinity, 0, 1])]).unchanged).toBe(false);
});

test('NaN and Inf stand where they are, and only there', () => {
  const maps = mapsOf(kOff, [layerOf(1, [Number.NaN, 2, 3, 4]), layerOf(2, [0, Infinity, 1, 1])]);
  expect([...maps.reach.difference.values]).toEqual([Number.NaN, 0, Infinity, 0]);
  expect(maps.reach.difference.stats).toMatchObject({ nan: 1, posInf: 1, finite: 2, absMax: 0 });
});

test('a layer that one side lacks is not captured, and one between two is not either', () => {
  const maps = mapsOf([...kOff, layerOf(4, [1, 1, 1, 1])], [kOff[0], layerOf(4, [1, 1, 1, 2])]);
  expect(maps.layers).toEqual([1, 2, 3, 4]);
  expect([...maps.reach.difference.present]).toEqual([1, 0, 0, 1]);
  expect(maps.tileMaps.map((tiles) => tiles === null)).toEqual([false, true, true, false]);
  expect(maps.unchanged).toBe(false);
  // The layer of both sides is equal, but one side lacks the other layer.
  expect(mapsOf(kOff, [kOff[0]]).unchanged).toBe(false);
});

test('token ids and positions go with the columns; without them columns are counted', () => {
  const tokens = makeRecord(
    { point: 8, layer: 0, entry: 1, shape: [2, 1, 2], compressor: 0, features: 0 },
    Int32Array.from([65, 66, 3, 4]),
  );
  const maps = mapsOf([tokens, ...kOff], [tokens, ...kOff]);
  expect([...(maps.tokens ?? [])]).toEqual([65, 66]);
  expect([...maps.positions]).toEqual([3, 4]);
  const without = mapsOf(kOff, kOff);
  expect(without.tokens).toBeNull();
  expect([...without.positions]).toEqual([0, 1]);
});

test('a prompt is shown if the run has no batches, with its own tokens', () => {
  const prompt = (numbers: readonly number[]): TensorRecord =>
    makeRecord({ layer: 1, promptSet: 2, phase: 1 }, Float32Array.from(numbers));
  const tokens = makeRecord(
    { point: 8, layer: 0, promptSet: 2, shape: [2, 1, 2], compressor: 0, features: 0 },
    Int32Array.from([65, 66, 0, 1]),
  );
  const [off, on] = [
    [tokens, prompt([1, 2, 3, 4])],
    [tokens, prompt([2, 2, 3, 4])],
  ];
  const maps = mapsOf(off, on);
  expect([maps.promptSet, [...(maps.tokens ?? [])], maps.unchanged]).toEqual([2, [65, 66], false]);
  expect([...maps.reach.difference.values]).toEqual([Math.sqrt(1 / 2), 0]);
  const withBatch = mapsOf([...off, ...kOff], [...on, ...kOff]);
  expect([withBatch.promptSet, withBatch.tokens, withBatch.unchanged]).toEqual([0, null, true]);
});

test('the first row is shown of records with more', () => {
  const rows = makeRecord({ shape: [2, 1, 2], step: 12 }, Float32Array.from([1, 2, 9, 9]));
  const maps = mapsOf([rows], [rows]);
  expect([...(maps.tileMaps[0]?.off.values ?? [])]).toEqual([1, 2]);
});

test('what has no difference is refused with a reason', () => {
  const wide = makeRecord({ shape: [1, 1, 4] });
  expect(reasonOf(kOff, [wide])).toBe('layer 1 is 1×2×2 without the program, 1×1×4 with it');
  const uneven = [kOff[0], makeRecord({ layer: 2, shape: [1, 1, 4] })];
  expect(reasonOf(uneven, uneven)).toBe('layer 1 is 1×2×2, layer 2 1×1×4');
  expect(reasonOf([], [])).toBe('there are no records of a layer on both sides');
  expect(reasonOf([kOff[0]], [kOff[1]])).toBe('there are no records of a layer on both sides');
  const flat = [makeRecord({ shape: [4] })];
  expect(reasonOf(flat, flat)).toBe('layer 1 has the shape 4');
  const empty = [makeRecord({ shape: [1, 2, 0] }, new Float32Array(0))];
  expect(reasonOf(empty, empty)).toBe('layer 1 has the shape 1×2×0');
  const unknown = [makeRecord({ dtype: 99 })];
  expect(reasonOf(unknown, unknown)).toBe('dtype 99 cannot be shown');
  const other = [makeRecord({ point: 5 })];
  expect(reasonOf(kOff, other)).toBe('there are no records of a layer on both sides');
});

test('an answer without records has none; one that cannot be read says why', () => {
  const golden = readFileSync(join(import.meta.dirname, '../../../../tests/golden/record_v1.bin'));
  const base64 = golden.toString('base64');
  expect(readRecords(undefined)).toBeNull();
  expect(readRecords(null)).toBeNull();
  const reason = (records: unknown): string => {
    const read = readRecords(records);
    return read !== null && 'reason' in read ? read.reason : '';
  };
  expect(reason(5)).toBe('expected an object');
  expect(reason({ off: base64 })).toContain('on: expected a string');
  expect(reason({ off: base64, on: '$' })).toBe('the records are not in base64');
  expect(reason({ off: base64, on: base64.slice(0, 40) })).toContain('record cut off');
  const damaged = Buffer.from(golden);
  damaged[40] ^= 1;
  expect(reason({ off: damaged.toString('base64'), on: base64 })).toBe('header checksum differs');
});
