import { expect, test } from 'vitest';
import { formatLayers, parseLayers } from './layers';

test('ranges are read and written', () => {
  expect(parseLayers('1-4,8')).toEqual([1, 2, 3, 4, 8]);
  expect(parseLayers(' 3 , 2-2 ')).toEqual([2, 3]);
  expect(formatLayers([1, 2, 3, 8])).toBe('1-3,8');
});

test('what is not a list of ranges is refused', () => {
  for (const text of ['', '0', '4-2', '1-', 'all', '1,,2', '-3']) {
    expect(parseLayers(text)).toBeUndefined();
  }
  expect(parseLayers('0-2', 0)).toEqual([0, 1, 2]);
});

test('a list that names too many layers is refused', () => {
  expect(parseLayers('1-65535')).toHaveLength(65535);
  expect(parseLayers(Array<string>(20).fill('1-65535').join(','))).toBeUndefined();
});
