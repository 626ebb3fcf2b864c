import { expect, test } from 'vitest';
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatNumber,
  formatPlural,
  formatRange,
  formatTick,
} from './format';

test('numbers for reading', () => {
  expect(formatNumber(0.123456)).toBe('0.1235');
  expect(formatNumber(-2.5, 2)).toBe('−2.5');
  expect(formatNumber(1234567)).toBe('1.235e6');
  expect(formatNumber(-0.00001234, 3)).toBe('−1.23e−5');
  expect(formatNumber(0)).toBe('0');
  expect(formatNumber(Number.NaN)).toBe('NaN');
  expect(formatNumber(Number.NEGATIVE_INFINITY)).toBe('−Inf');
});

test('ticks lose the zeros of a fraction, and no others', () => {
  const ticks = [380, 100, 0, 2.5, 0.2, -0.6, 20, 1.2e6, 1e5, 3.45e-5, 5480, 0.1 + 0.2];
  expect(ticks.map(formatTick)).toEqual([
    ...['380', '100', '0', '2.5', '0.2', '−0.6', '20', '1.2e6', '1e5', '3.45e−5', '5480', '0.3'],
  ]);
});

test('counts and bytes', () => {
  expect(formatCount(3290112)).toBe('3.29\u00a0M');
  const counts = [812, 999.4, 1000, 999_499, 999_700, 999_999_999].map(formatCount);
  expect(counts.map((text) => text.replace('\u00a0', ' '))).toEqual([
    ...['812', '999', '1.00 k', '999 k', '1.00 M', '1.00 G'],
  ]);
  expect(formatRange(3, 5)).toBe('3–5');
  expect(formatPlural(1, 'forward')).toBe('1 forward');
  expect(formatBytes(1536)).toBe('1.5\u00a0KiB');
  expect(formatBytes(128 * 2 ** 20)).toBe('128\u00a0MiB');
});

test('durations', () => {
  const times = [0, 59.4, 60, 200, 3599, 3700, 86_400, 100_000];
  expect(times.map((seconds) => formatDuration(seconds).replace(/\u00a0/g, ' '))).toEqual([
    ...['0 s', '59 s', '1 min 00 s', '3 min 20 s', '59 min 59 s', '1 h 02 min'],
    ...['1 d 00 h', '1 d 04 h'],
  ]);
});
