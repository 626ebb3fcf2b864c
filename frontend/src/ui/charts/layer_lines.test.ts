import { expect, test } from 'vitest';
import { layerColor, layerLines } from './layer_lines';

test('every layer has its own colour, and the chosen one stands out', () => {
  const lines = layerLines(['L1', 'L2', 'L3'], 1, 'dark');
  expect(new Set(lines.map(({ color }) => color)).size).toBe(3);
  expect(lines.map(({ kind }) => kind)).toEqual(['thin', 'bold', 'thin']);
  expect(layerColor(0, 1, 'light')).not.toBe(layerColor(0, 1, 'dark'));
});
