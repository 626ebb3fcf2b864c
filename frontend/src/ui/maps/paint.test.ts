import { describe, expect, test } from 'vitest';
import { type MapData, statsOf } from '../../core/store/map_data';
import { lutOf } from './lut';
import { clippedOf, lockAt, paintCells, scaleFor, sharedScale } from './paint';

const kLut = lutOf('light', 'diverging');

function mapOf(
  rows: number,
  cols: number,
  values: readonly number[],
  present?: Uint8Array,
): MapData {
  const data = Float32Array.from(values);
  const rowsPresent = present ?? new Uint8Array(rows).fill(1);
  return {
    rows,
    cols,
    values: data,
    present: rowsPresent,
    stats: statsOf(data, rowsPresent, cols),
  };
}

describe('paintCells', () => {
  test('ends, middle, clipped and reserved cells', () => {
    const { NaN: nan, POSITIVE_INFINITY: inf } = Number;
    const map = mapOf(1, 8, [-1, 0, 1, nan, inf, -inf, 1.5, -1.5]);
    const out = new Uint32Array(8);
    paintCells(map, { low: -1, high: 1 }, kLut, out);
    expect([...out]).toEqual([
      kLut.colors[0],
      kLut.colors[128],
      kLut.colors[255],
      kLut.nan,
      kLut.posInf,
      kLut.negInf,
      kLut.over,
      kLut.under,
    ]);
  });

  test('rows that were not captured have their own colour', () => {
    const out = new Uint32Array(4);
    paintCells(mapOf(2, 2, [0, 0, 0, 0], Uint8Array.of(0, 1)), { low: -1, high: 1 }, kLut, out);
    expect([...out]).toEqual([kLut.missing, kLut.missing, kLut.colors[128], kLut.colors[128]]);
  });

  test('single cells without data too', () => {
    const out = new Uint32Array(3);
    const map = { ...mapOf(1, 3, [0, 0, 9]), absent: Uint8Array.of(0, 1, 0) };
    paintCells(map, { low: -1, high: 1 }, kLut, out);
    expect([...out]).toEqual([kLut.colors[128], kLut.missing, kLut.over]);
  });
});

test('all finite values of a map beyond a scale are counted, in no matter what window', () => {
  const { NaN: nan, POSITIVE_INFINITY: inf } = Number;
  const map = mapOf(2, 4, [-1, 1, nan, inf, 1.5, -1.5, 2, -inf]);
  expect(clippedOf(map, { low: -1, high: 1 })).toBe(3);
  expect(clippedOf(map, { low: -2, high: 2 })).toBe(0);
});

test('a locked scale clips nothing of what it was locked at', () => {
  for (const high of [Math.fround(0.1), 1.2345678, 9.9999999, 3, 1e-7 / 3, 123456789]) {
    const lock = lockAt({ low: 0, high });
    expect(lock).toBeGreaterThanOrEqual(high);
    expect(lock / high).toBeLessThan(1.000011);
    expect(Number(lock.toPrecision(6))).toBe(lock);
  }
});

describe('scaleFor', () => {
  const map = mapOf(
    1,
    200,
    Array.from({ length: 200 }, (_, i) => (i === 0 ? -50 : i / 200)),
  );

  test('a diverging scale is symmetric about 0', () => {
    expect(scaleFor(map, 'diverging', 'full', null)).toEqual({ low: -50, high: 50 });
  });

  test('99 % leaves the outlier out', () => {
    expect(scaleFor(map, 'diverging', '99', null).high).toBeLessThan(1.1);
  });

  test('90 % leaves the first of 16 tokens out, whatever its size', () => {
    const sizes = Array.from({ length: 32 }, (_, i) => (i % 16 === 0 ? 3e5 : (i % 16) / 16));
    const massive = mapOf(2, 16, sizes);
    expect(scaleFor(massive, 'diverging', '99', null).high).toBe(3e5);
    const { high } = scaleFor(massive, 'diverging', '90', null);
    expect(high).toBeGreaterThanOrEqual(15 / 16);
    expect(high).toBeLessThanOrEqual((15 / 16) * (1 + 1 / 64));
  });

  test('numbers that are too large for a float32 have a scale', () => {
    const values = Float64Array.from({ length: 20 }, (_, i) => (i < 10 ? 1e300 : 1));
    const present = Uint8Array.of(1);
    const huge = { rows: 1, cols: 20, values, present, stats: statsOf(values, present, 20) };
    expect(scaleFor(huge, 'diverging', '90', null).high).toBe(1e300);
  });

  test('a map of zeros but for one value has the scale of this value', () => {
    const sparse = mapOf(
      1,
      200,
      Array.from({ length: 200 }, (_, i) => (i === 7 ? 2 : 0)),
    );
    expect(scaleFor(sparse, 'sequential', '90', null).high).toBe(2);
  });

  test('many maps have the scale of the largest', () => {
    const maps = [mapOf(1, 2, [1, -4]), map, mapOf(1, 1, [0])];
    expect(sharedScale(maps, 'diverging', 'full', null)).toEqual({ low: -50, high: 50 });
    expect(sharedScale(maps, 'sequential', 'full', 7)).toEqual({ low: 0, high: 7 });
    expect(sharedScale([], 'diverging', '99', null)).toEqual({ low: -1, high: 1 });
  });

  test('a locked scale stays, and a map of zeros has one too', () => {
    expect(scaleFor(map, 'sequential', 'full', 3)).toEqual({ low: 0, high: 3 });
    expect(scaleFor(mapOf(1, 1, [0]), 'diverging', 'full', null)).toEqual({ low: -1, high: 1 });
  });
});
