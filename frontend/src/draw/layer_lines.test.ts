import { expect, test } from 'vitest';
import { barsPath, binName } from './bars';
import { layerColor, layerLines } from './layer_lines';

test('every layer has a colour of its own, and the chosen one stands out', () => {
  const lines = layerLines(['L1', 'L2', 'L3'], 1, 'dark');
  expect(new Set(lines.map(({ color }) => color)).size).toBe(3);
  expect(lines.map(({ kind }) => kind)).toEqual(['thin', 'bold', 'thin']);
  expect(layerColor(0, 1, 'light')).not.toBe(layerColor(0, 1, 'dark'));
});

test('bars reach as high as their count', () => {
  expect(barsPath([0, 2, 1])).toBe('M1 1V0H2V1ZM2 1V0.5H3V1Z');
  expect(barsPath([0, 0])).toBe('');
});

test('bins are named by what they count', () => {
  expect(binName(33, 48, undefined, String)).toBe('2^1 ≤ |x| < 2^2');
  // The ends take what lies beyond.
  expect(binName(0, 4, [-4, 4], String)).toBe('x < -2');
  expect(binName(1, 4, [-4, 4], String)).toBe('-2 ≤ x < 0');
  expect(binName(3, 4, [-4, 4], String)).toBe('2 ≤ x');
});
