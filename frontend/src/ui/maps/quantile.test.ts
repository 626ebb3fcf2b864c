import { expect, test } from 'vitest';
import { type MapData, statsOf } from '../../core/store/map_data';
import type { Floats } from '../../protocol/numbers';
import { quantileOf } from './quantile';

function mapOf(values: Floats, cols = values.length): MapData {
  const present = new Uint8Array(values.length / cols).fill(1);
  return { rows: present.length, cols, values, present, stats: statsOf(values, present, cols) };
}

/** Numbers of many sizes and both signs. */
const kNumbers = Float64Array.from({ length: 999 }, (_, i) => Math.sin(i) * 2 ** ((i * 7) % 60));

test.each([0.5, 0.9, 0.99, 1])('at most 1/64 more than the exact quantile %d', (share) => {
  const sorted = [...kNumbers].map(Math.abs).sort((a, b) => a - b);
  const exact = sorted[Math.ceil(share * sorted.length) - 1];
  for (const values of [kNumbers, Float32Array.from(kNumbers)]) {
    const found = quantileOf(mapOf(values), share);
    expect(found).toBeGreaterThanOrEqual(exact * (1 - 1e-7)); // the float32 may be smaller
    expect(found).toBeLessThanOrEqual(exact * (1 + 1 / 64));
  }
});

test('only finite values count, of rows and cells that have data', () => {
  const { NaN: nan, POSITIVE_INFINITY: inf } = Number;
  const values = Float32Array.of(1, nan, -inf, inf, 8, 8, 8, 8, 1, 1, 16, 16);
  const present = Uint8Array.of(1, 0, 1);
  const absent = Uint8Array.of(0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1);
  const held = { ...mapOf(values, 4), present, stats: statsOf(values, present, 4) };
  expect(quantileOf(held, 0.6)).toBeLessThan(1.02);
  expect(quantileOf(held, 0.7)).toBe(16);
  expect(quantileOf({ ...held, absent }, 0.7)).toBeLessThan(1.02);
  expect(quantileOf(mapOf(Float32Array.of(nan, inf)), 0.9)).toBe(0);
});
