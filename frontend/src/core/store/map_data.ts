import type { Floats } from '../../protocol/numbers';

/** The statistics of a heat map's numbers, for its legend. */
export interface MapStats {
  readonly min: number;
  readonly max: number;
  /** The largest finite |x|. */
  readonly absMax: number;
  readonly finite: number;
  readonly nan: number;
  readonly posInf: number;
  readonly negInf: number;
}

/** A matrix in row-major order. `present[row]` is 0 for a row that was not captured. */
export interface MapData {
  readonly rows: number;
  readonly cols: number;
  readonly values: Floats;
  readonly present: Uint8Array;
  /** 1 for each cell without data, if single cells of a row may be missing. */
  readonly absent?: Uint8Array;
  readonly stats: MapStats;
}

/** Where a colour scale ends: at the largest |x|, or at the |x| that 99 % or 90 % of the values do not exceed. */
export const kClips = ['full', '99', '90'] as const;
export type Clip = (typeof kClips)[number];

/** "full", "99 %". */
export function clipText(clip: Clip): string {
  return clip === 'full' ? clip : `${clip} %`;
}

/** The statistics of a map without finite numbers. */
const kNoNumbers = { min: 0, max: 0, absMax: 0, finite: 0 } as const;

export function statsOf(values: Floats, present: Uint8Array, cols: number): MapStats {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  let nan = 0;
  let posInf = 0;
  let negInf = 0;
  let finite = 0;
  for (let row = 0; row < present.length; row++) {
    if (present[row] === 0) continue;
    for (let i = row * cols; i < (row + 1) * cols; i++) {
      const value = values[i];
      if (value - value === 0) {
        finite += 1;
        if (value < min) min = value;
        if (value > max) max = value;
      } else if (value > 0) posInf += 1;
      else if (value < 0) negInf += 1;
      else nan += 1;
    }
  }
  if (finite === 0) return { ...kNoNumbers, nan, posInf, negInf };
  const absMax = Math.max(Math.abs(min), Math.abs(max));
  return { min, max, absMax, finite, nan, posInf, negInf };
}
