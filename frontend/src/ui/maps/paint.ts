import type { Clip, MapData } from '../../core/store/map_data';
import type { Lut, MapKind } from './lut';
import { quantileOf } from './quantile';

/** The values at the two ends of the colour table. */
export interface Scale {
  readonly low: number;
  readonly high: number;
}

/** Paints one word per cell into `out`, row by row. */
export function paintCells(map: MapData, scale: Scale, lut: Lut, out: Uint32Array): void {
  const { values, cols, present, absent } = map;
  const { colors } = lut;
  const { low, high } = scale;
  const factor = high > low ? 255 / (high - low) : 0;
  for (let row = 0; row < map.rows; row++) {
    const end = (row + 1) * cols;
    if (present[row] === 0) {
      out.fill(lut.missing, row * cols, end);
      continue;
    }
    for (let i = row * cols; i < end; i++) {
      const value = values[i];
      if (value >= low && value <= high) {
        out[i] = colors[((value - low) * factor + 0.5) | 0];
      } else if (value !== value) {
        out[i] = lut.nan;
      } else if (value === Number.POSITIVE_INFINITY) {
        out[i] = lut.posInf;
      } else if (value === Number.NEGATIVE_INFINITY) {
        out[i] = lut.negInf;
      } else {
        out[i] = value > high ? lut.over : lut.under;
      }
    }
  }
  absent?.forEach((missing, i) => {
    if (missing === 1) out[i] = lut.missing;
  });
}

/** The number of finite values beyond a scale; for a folded map, the number of its cells. */
export function clippedOf({ values, stats }: MapData, { low, high }: Scale): number {
  if (stats.min >= low && stats.max <= high) return 0;
  let clipped = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if ((value > high || value < low) && value - value === 0) clipped += 1;
  }
  return clipped;
}

/** The end of a scale for a lock, rounded up to few digits, so that the lock clips no values. */
export function lockAt({ high }: Scale): number {
  const near = Number(high.toPrecision(kLockDigits));
  if (near >= high) return near;
  const unit = 10 ** (Math.floor(Math.log10(high)) + 1 - kLockDigits);
  return Number((near + unit).toPrecision(kLockDigits));
}

const kLockDigits = 6;

/** The scale for a map: symmetric about 0 for a diverging map, otherwise from 0. */
export function scaleFor(map: MapData, kind: MapKind, clip: Clip, locked: number | null): Scale {
  return scaleTo(locked ?? limitOf(map, clip), kind);
}

/** One scale for many maps. */
export function sharedScale(
  maps: readonly MapData[],
  kind: MapKind,
  clip: Clip,
  locked: number | null,
): Scale {
  return scaleTo(locked ?? Math.max(0, ...maps.map((map) => limitOf(map, clip))), kind);
}

function limitOf(map: MapData, clip: Clip): number {
  return clip === 'full' ? map.stats.absMax : quantileOf(map, Number(clip) / 100);
}

function scaleTo(limit: number, kind: MapKind): Scale {
  const high = limit > 0 ? limit : 1;
  return { low: kind === 'diverging' ? -high : 0, high };
}
