import { expect, test } from 'vitest';
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatNumber,
  formatPlural,
  formatRange,
  formatTick,
  formatTicks,
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
  expect(ticks.map((tick) => formatTick(tick))).toEqual([
    ...['380', '100', '0', '2.5', '0.2', '−0.6', '20', '1.2e6', '1e5', '3.45e−5', '5480', '0.3'],
  ]);
});

test('ticks that are close have more digits', () => {
  expect(formatTicks([5.9e-4, null, 6e-4, 6.1e-4])).toEqual(['5.9e−4', '', '6e−4', '6.1e−4']);
  expect(formatTicks([5.9995e-4, 6e-4, 6.0005e-4])).toEqual(['5.9995e−4', '6e−4', '6.0005e−4']);
  expect(formatTicks([1234500, 1234600])).toEqual(['1.2345e6', '1.2346e6']);
  expect(formatTicks([6e-4, 6.0000001e-4])).toEqual(['6e−4', '6e−4']);
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
