import type { Theme } from '../../core/session/theme';

/** A colour as [red, green, blue], 0 to 255. */
export type Rgb = readonly [number, number, number];

/** Colours for a heat map as 32-bit words of canvas pixels (little-endian: alpha, b, g, r). */
export interface Lut {
  readonly colors: Uint32Array;
  readonly nan: number;
  readonly posInf: number;
  readonly negInf: number;
  /** The colours of finite values beyond the ends of the scale. */
  readonly under: number;
  readonly over: number;
  /** The colour of rows and cells that were not captured. */
  readonly missing: number;
}

export type MapKind = 'diverging' | 'sequential';

/** Reserved colours: no ramp has colours close to magenta, yellow or green. */
export const kReserved = {
  nan: [230, 0, 200],
  posInf: [255, 225, 0],
  negInf: [0, 190, 90],
} as const satisfies Record<string, Rgb>;

interface Ramp {
  readonly stops: readonly Rgb[];
  readonly under: Rgb;
  readonly over: Rgb;
}

// Blue to orange-red, the pair that colour-blind people distinguish best. The middle is the page's
// background colour, so that a stronger colour means a larger magnitude in both themes.
const kRamps: Readonly<Record<Theme, Readonly<Record<MapKind, Ramp>>>> = {
  light: {
    diverging: {
      stops: [
        [8, 42, 102],
        [30, 98, 173],
        [98, 160, 212],
        [178, 210, 234],
        [246, 246, 245],
        [247, 205, 176],
        [231, 145, 96],
        [193, 77, 42],
        [112, 22, 14],
      ],
      under: [2, 14, 44],
      over: [54, 4, 4],
    },
    sequential: {
      stops: [
        [246, 247, 248],
        [203, 223, 238],
        [139, 186, 219],
        [72, 141, 192],
        [25, 93, 153],
        [8, 48, 97],
      ],
      under: [255, 255, 255],
      over: [3, 16, 42],
    },
  },
  dark: {
    diverging: {
      stops: [
        [176, 220, 255],
        [98, 172, 236],
        [44, 116, 186],
        [26, 70, 124],
        [20, 23, 29],
        [112, 53, 24],
        [176, 84, 36],
        [236, 146, 88],
        [255, 212, 178],
      ],
      under: [232, 246, 255],
      over: [255, 242, 230],
    },
    sequential: {
      stops: [
        [20, 23, 29],
        [22, 50, 88],
        [28, 88, 146],
        [52, 134, 198],
        [118, 184, 232],
        [204, 232, 252],
      ],
      under: [10, 12, 16],
      over: [244, 251, 255],
    },
  },
};

const kMissing: Readonly<Record<Theme, Rgb>> = { light: [226, 229, 233], dark: [34, 38, 46] };

const kCache = new Map<string, Lut>();

/** The 256-entry table of a theme and a kind of map. */
export function lutOf(theme: Theme, kind: MapKind): Lut {
  const key = `${theme}/${kind}`;
  let lut = kCache.get(key);
  if (lut === undefined) {
    const ramp = kRamps[theme][kind];
    lut = {
      colors: Uint32Array.from(evenColors(ramp.stops, kind), pack),
      nan: pack(kReserved.nan),
      posInf: pack(kReserved.posInf),
      negInf: pack(kReserved.negInf),
      under: pack(ramp.under),
      over: pack(ramp.over),
      missing: pack(kMissing[theme]),
    };
    kCache.set(key, lut);
  }
  return lut;
}

export function pack([red, green, blue]: Rgb): number {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

export function unpack(word: number): Rgb {
  return [word & 255, (word >>> 8) & 255, (word >>> 16) & 255];
}

/** Relative luminance (WCAG), 0 to 1. */
export function luminance([red, green, blue]: Rgb): number {
  return 0.2126 * toLinear(red) + 0.7152 * toLinear(green) + 0.0722 * toLinear(blue);
}

/**
 * 256 colours along the ramp in steps that look equal: they have equal distances in CIELAB (CIE 1976).
 * A diverging ramp is divided in two halves, so that its middle stays the colour of 0.
 */
function evenColors(stops: readonly Rgb[], kind: MapKind): readonly Rgb[] {
  if (kind === 'sequential') return evenCut(stops, 256);
  const middle = (stops.length - 1) / 2;
  return [...evenCut(stops.slice(0, middle + 1), 128), ...evenCut(stops.slice(middle), 128)];
}

const kSamples = 2048;

function evenCut(stops: readonly Rgb[], count: number): readonly Rgb[] {
  const labs = Array.from({ length: kSamples + 1 }, (_, i) => labOf(rampAt(stops, i / kSamples)));
  const way = [0];
  for (let i = 1; i <= kSamples; i++) {
    const [p, q] = [labs[i - 1], labs[i]];
    way.push(way[i - 1] + Math.hypot(q[0] - p[0], q[1] - p[1], q[2] - p[2]));
  }
  let at = 0;
  return Array.from({ length: count }, (_, i) => {
    const wanted = (way[kSamples] * i) / (count - 1);
    while (at < kSamples && way[at] < wanted) at += 1;
    return rampAt(stops, at / kSamples).map(Math.round) as unknown as Rgb;
  });
}

/** CIELAB under D65. */
export function labOf(color: Rgb): readonly [number, number, number] {
  const [r, g, b] = color.map(toLinear);
  const f = (t: number): number => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116);
  const x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
  const y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
  const z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

/** The colour at `t` from 0 to 1, not rounded, interpolated between the stops. */
function rampAt(stops: readonly Rgb[], t: number): Rgb {
  const position = t * (stops.length - 1);
  const below = Math.min(Math.floor(position), stops.length - 2);
  const mix = position - below;
  const channel = (i: 0 | 1 | 2): number =>
    toPerceived(mixLab(stops[below][i], stops[below + 1][i], mix));
  return [channel(0), channel(1), channel(2)];
}

// Interpolates the cube roots of linear light, which are close to the perceived lightness, so that
// the steps between stops look equal.
function mixLab(a: number, b: number, mix: number): number {
  const from = Math.cbrt(toLinear(a));
  const to = Math.cbrt(toLinear(b));
  return (from + (to - from) * mix) ** 3;
}

function toLinear(channel: number): number {
  const c = channel / 255;
  return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
}

function toPerceived(linear: number): number {
  const c = linear <= 0.0031308 ? linear * 12.92 : 1.055 * linear ** (1 / 2.4) - 0.055;
  return Math.min(1, Math.max(0, c)) * 255;
}
