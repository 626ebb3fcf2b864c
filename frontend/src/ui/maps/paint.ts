import type { MapData } from '../../core/store/map_data';
import type { Lut, MapKind } from './lut';

/** The values at the two ends of the colours. */
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

/** How many finite values of a map are beyond a scale; of a folded map its cells are counted. */
export function clippedOf({ values, stats }: MapData, { low, high }: Scale): number {
  if (stats.min >= low && stats.max <= high) return 0;
  let clipped = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if ((value > high || value < low) && value - value === 0) clipped += 1;
  }
  return clipped;
}

/** The end of a scale in few digits, for a lock: never below it, so that nothing is clipped. */
export function lockAt({ high }: Scale): number {
  const near = Number(high.toPrecision(kLockDigits));
  if (near >= high) return near;
  const unit = 10 ** (Math.floor(Math.log10(high)) + 1 - kLockDigits);
  return Number((near + unit).toPrecision(kLockDigits));
}

const kLockDigits = 6;

/** The scale for a map: symmetric about 0 where the kind is diverging, from 0 where it is not. */
export function scaleFor(
  map: MapData,
  kind: MapKind,
  clip99: boolean,
  locked: number | null,
): Scale {
  return scaleTo(locked ?? limitOf(map, clip99), kind);
}

/** One scale for many maps. */
export function sharedScale(
  maps: readonly MapData[],
  kind: MapKind,
  clip99: boolean,
  locked: number | null,
): Scale {
  return scaleTo(locked ?? Math.max(0, ...maps.map((map) => limitOf(map, clip99))), kind);
}

function limitOf({ stats }: MapData, clip99: boolean): number {
  return clip99 ? stats.abs99 : stats.absMax;
}

function scaleTo(limit: number, kind: MapKind): Scale {
  const high = limit > 0 ? limit : 1;
  return { low: kind === 'diverging' ? -high : 0, high };
}
