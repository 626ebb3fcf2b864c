import { describe, expect, test } from 'vitest';
import { kReserved, lutOf, luminance, pack, type Rgb, unpack } from './lut';

const kThemes = ['light', 'dark'] as const;

function colorsOf(theme: 'light' | 'dark', kind: 'diverging' | 'sequential'): Rgb[] {
  return [...lutOf(theme, kind).colors].map(unpack);
}

/** The matrices of Machado, Oliveira and Fernandes 2009 for full severity, for linear light. */
const kBlindness: Readonly<Record<string, readonly number[]>> = {
  deuteranopia: [
    0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881,
  ],
  protanopia: [
    0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998,
  ],
  tritanopia: [
    1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039,
  ],
};

function linear(channel: number): number {
  const c = channel / 255;
  return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
}

function labOf(color: Rgb, blindness?: readonly number[]): readonly [number, number, number] {
  let [r, g, b] = color.map(linear);
  if (blindness !== undefined) {
    const m = blindness;
    const clamp = (x: number): number => Math.min(1, Math.max(0, x));
    [r, g, b] = [
      clamp(m[0] * r + m[1] * g + m[2] * b),
      clamp(m[3] * r + m[4] * g + m[5] * b),
      clamp(m[6] * r + m[7] * g + m[8] * b),
    ];
  }
  const f = (t: number): number => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116);
  const x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
  const y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
  const z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

function difference(a: Rgb, b: Rgb, blindness?: readonly number[]): number {
  const [p, q] = [labOf(a, blindness), labOf(b, blindness)];
  return Math.hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]);
}

describe.each(kThemes)('tables of the %s theme', (theme) => {
  test('luminance is monotone from the middle of a diverging table', () => {
    const values = colorsOf(theme, 'diverging').map(luminance);
    const away = theme === 'light' ? -1 : 1;
    for (let i = 128; i < 255; i++)
      expect(away * (values[i + 1] - values[i])).toBeGreaterThanOrEqual(0);
    for (let i = 127; i > 0; i--)
      expect(away * (values[i - 1] - values[i])).toBeGreaterThanOrEqual(0);
  });

  test('luminance is monotone along a sequential table', () => {
    const values = colorsOf(theme, 'sequential').map(luminance);
    const away = theme === 'light' ? -1 : 1;
    for (let i = 0; i < 255; i++)
      expect(away * (values[i + 1] - values[i])).toBeGreaterThanOrEqual(0);
  });

  test('equal steps of the value look equal', () => {
    for (const kind of ['diverging', 'sequential'] as const) {
      const colors = colorsOf(theme, kind);
      // Sixteen entries at once, because the channels of a single entry are rounded to whole numbers.
      const steps: number[] = [];
      const half = kind === 'diverging' ? 128 : 256;
      for (let i = 0; i + 16 <= 255; i += 8) {
        const crosses = i < half && i + 16 >= half;
        if (!crosses) steps.push(difference(colors[i], colors[i + 16]));
      }
      expect(Math.max(...steps) / Math.min(...steps), kind).toBeLessThan(1.6);
    }
  });

  test('plus and minus x differ, also for colour-blind eyes', () => {
    const colors = colorsOf(theme, 'diverging');
    for (const blindness of [undefined, ...Object.values(kBlindness)]) {
      // Colours closer to the middle are as weak as their values, so they are not compared.
      for (let distance = 20; distance < 128; distance++) {
        const minus = colors[127 - distance];
        const plus = colors[128 + distance];
        expect(difference(minus, plus, blindness)).toBeGreaterThanOrEqual(20);
      }
    }
  });

  test('reserved colours are far from every colour of the tables', () => {
    for (const kind of ['diverging', 'sequential'] as const) {
      for (const color of colorsOf(theme, kind)) {
        for (const reserved of Object.values(kReserved)) {
          expect(difference(color, reserved)).toBeGreaterThan(25);
        }
      }
    }
  });

  test('no two names of a cell look alike, also for colour-blind eyes', () => {
    for (const kind of ['diverging', 'sequential'] as const) {
      const { nan, posInf, negInf, under, over, missing } = lutOf(theme, kind);
      const names = [nan, posInf, negInf, under, over, missing].map(unpack);
      for (const [i, a] of names.entries()) {
        for (const b of names.slice(i + 1)) {
          for (const blindness of [undefined, ...Object.values(kBlindness)]) {
            expect(difference(a, b, blindness)).toBeGreaterThan(9);
          }
        }
      }
    }
  });

  test('there are 256 opaque entries', () => {
    const { colors } = lutOf(theme, 'diverging');
    expect(colors).toHaveLength(256);
    expect([...colors].every((word) => word >>> 24 === 255)).toBe(true);
  });
});

test('pack and unpack are inverse', () => {
  expect(unpack(pack([1, 2, 250]))).toEqual([1, 2, 250]);
});
