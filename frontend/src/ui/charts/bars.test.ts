import { expect, test } from 'vitest';
import { barsPath, barsUnit, binName, binTicks, filledBins, rangeOf } from './bars';

test('bars reach as high as their count', () => {
  expect(barsPath([0, 2, 1])).toBe('M1 1V0H2V1ZM2 1V0.5H3V1Z');
  expect(barsPath([0, 0])).toBe('');
});

test('the bins of a range: the ends take what lies beyond', () => {
  const range = rangeOf({ range: [-2, 2] });
  expect(barsUnit('activation', range)).toBe('count by activation');
  expect(binTicks(64, range, String)).toEqual([
    { at: 0, text: '≤ -2' },
    { at: 0.5, text: '0' },
    { at: 1, text: '≥ 2' },
  ]);
  const names = [0, 1, 3].map((bin) => binName(bin, 4, range, String));
  expect(names).toEqual(['x < -1', '-1 ≤ x < 0', '1 ≤ x']);
});

test('powers of two', () => {
  const range = rangeOf({ range: undefined });
  expect(barsUnit('activation', range)).toBe('count by |activation|');
  expect(binTicks(48, range, String)).toEqual([
    { at: 0, text: '≤ 2^−32' },
    { at: 1 / 3, text: '2^−16' },
    { at: 2 / 3, text: '1' },
    { at: 1, text: '≥ 2^16' },
  ]);
  expect(binName(32, 48, range, String)).toBe('1 ≤ |x| < 2^1');
  const ends = [0, 47].map((bin) => binName(bin, 48, range, String));
  expect(ends).toEqual(['0 < |x| < 2^−31', '2^15 ≤ |x|']);
});

test('of bins that nobody knows nothing is said but their number', () => {
  const range = rangeOf(undefined);
  expect(binTicks(48, range, String)).toEqual([]);
  expect(binName(32, 48, range, String)).toBe('bin 32');
});

test('an axis that fits holds the bins that count something', () => {
  const counts = [0, 0, 3, 0, 1, 0, 0, 0];
  expect(filledBins(counts, 8)).toEqual([1, 6]);
  expect(filledBins([0, 0, 5, 0, 0, 0, 0, 2], 4), 'of two rows').toEqual([1, 4]);
  expect(filledBins([0, 0], 2)).toEqual([0, 2]);
  expect(binTicks(64, [-2, 2], String, [16, 48])).toEqual([
    { at: 0, text: '-1' },
    { at: 0.5, text: '0' },
    { at: 1, text: '1' },
  ]);
  expect(binTicks(48, 'powers', String, [28, 36])).toEqual([
    { at: 0, text: '2^−4' },
    { at: 0.25, text: '2^−2' },
    { at: 0.5, text: '1' },
    { at: 0.75, text: '2^2' },
    { at: 1, text: '2^4' },
  ]);
});
