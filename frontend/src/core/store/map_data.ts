import type { Floats } from '../../protocol/numbers';

/** The statistics of a heat map's numbers, for its legend. */
export interface MapStats {
  readonly min: number;
  readonly max: number;
  /** The largest finite |x|, and the 99th percentile of |x| of the finite values. */
  readonly absMax: number;
  readonly abs99: number;
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

const kBins = 4096;

/** The statistics of a map without finite numbers. */
const kNoNumbers = { min: 0, max: 0, absMax: 0, abs99: 0, finite: 0 } as const;

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
  const abs99 = quantile99(values, present, cols, absMax, finite);
  return { min, max, absMax, abs99, finite, nan, posInf, negInf };
}

/**
 * The 99th percentile of |x|, with a resolution of 1/4096 of the largest |x|: the upper edge of the
 * bin that contains it.
 */
function quantile99(
  values: Floats,
  present: Uint8Array,
  cols: number,
  absMax: number,
  finite: number,
): number {
  const binsPerUnit = kBins / absMax;
  if (!Number.isFinite(binsPerUnit)) return absMax;
  const bins = new Uint32Array(kBins + 1);
  for (let row = 0; row < present.length; row++) {
    if (present[row] === 0) continue;
    for (let i = row * cols; i < (row + 1) * cols; i++) {
      const magnitude = Math.abs(values[i]);
      if (magnitude <= absMax) bins[(magnitude * binsPerUnit) | 0] += 1;
    }
  }
  const wanted = Math.ceil(finite * 0.99);
  let seen = 0;
  for (let bin = 0; bin <= kBins; bin++) {
    seen += bins[bin];
    if (seen >= wanted) return Math.min(absMax, (absMax * (bin + 1)) / kBins);
  }
  return absMax;
}
