import { expect, test } from 'vitest';
import { lutOf, unpack } from './lut';
import { swatchOf } from './swatch';

test('the ends of the colours are those of the maps, and a missing value has its own', () => {
  for (const theme of ['light', 'dark'] as const) {
    const lut = lutOf(theme, 'sequential');
    const css = (word: number): string => `rgb(${unpack(word).join(' ')})`;
    expect(swatchOf(0, theme).ground).toBe(css(lut.colors[0]));
    expect(swatchOf(7, theme).ground).toBe(css(lut.colors[255]));
    expect(swatchOf(Number.NaN, theme).ground).toBe(css(lut.missing));
  }
  expect([swatchOf(0, 'light').ink, swatchOf(1, 'light').ink]).toEqual(['#000', '#fff']);
});
