import type { Floats } from '../../protocol/numbers';

/** The statistics of a heat map's numbers, for its legend. */
export interface MapStats {
  readonly min: number;
  readonly max: number;
  /** The largest finite |x|, and the 99th and 90th percentile of |x| of the finite values. */
  readonly absMax: number;
  readonly abs99: number;
  readonly abs90: number;
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
export type Clip = 'full' | '99' | '90';

const float = new Float32Array(1);
const floatBits = new Int32Array(float.buffer);
const kDroppedBits = 17; // of the 23 of a float32's mantissa
const kInfinityBin = 0x7f800000 >> kDroppedBits; // also for what is too large for a float32

/** The statistics of a map without finite numbers. */
const kNoNumbers = { min: 0, max: 0, absMax: 0, abs99: 0, abs90: 0, finite: 0 } as const;

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
  const bins = binsOf(values, present, cols);
  const abs99 = quantileOf(bins, 0.99, finite, absMax);
  const abs90 = quantileOf(bins, 0.9, finite, absMax);
  return { min, max, absMax, abs99, abs90, finite, nan, posInf, negInf };
}

/** The number of finite values in each bin: the upper bits of |x| as a float32, so that a bin is 1/64 wide. */
function binsOf(values: Floats, present: Uint8Array, cols: number): Uint32Array<ArrayBuffer> {
  const bins = new Uint32Array(kInfinityBin + 1);
  for (let row = 0; row < present.length; row++) {
    if (present[row] === 0) continue;
    for (let i = row * cols; i < (row + 1) * cols; i++) {
      const value = values[i];
      if (value - value === 0) bins[binOf(value)] += 1;
    }
  }
  return bins;
}

function binOf(value: number): number {
  float[0] = Math.abs(value);
  return floatBits[0] >> kDroppedBits;
}

/**
 * The |x| that `share` of the values do not exceed: the upper edge of its bin, at most 1/64 more. If these values
 * are all 0, the largest |x|.
 */
function quantileOf(bins: Uint32Array, share: number, finite: number, absMax: number): number {
  const above = finite - Math.ceil(share * finite);
  let bin = binOf(absMax);
  for (let seen = bins[bin]; seen <= above && bin > 0; seen += bins[bin]) bin -= 1;
  if (bin === 0 || bin === kInfinityBin) return absMax;
  floatBits[0] = (bin + 1) << kDroppedBits;
  return Math.min(absMax, float[0]);
}
