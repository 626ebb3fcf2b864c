import type { MapData } from '../../core/store/map_data';
import type { Floats } from '../../protocol/numbers';

const kDroppedBits = 17; // of the 23 of a float32's mantissa
const kNotFinite = 0x7f800000 >> kDroppedBits; // the first bin of Inf and NaN
const kBins = 0x80000000 / 2 ** kDroppedBits;
const kLargest = (2 - 2 ** -23) * 2 ** 127; // of a float32

const float = new Float32Array(1);
const floatBits = new Int32Array(float.buffer);

const known = new WeakMap<MapData, Map<number, number>>();

/**
 * The |x| that `share` of the finite values of a map do not exceed, or at most 1/64 more. If these values are all 0,
 * the largest |x|. Values that are too large for a float32 are equal. For a folded map, of its cells.
 */
export function quantileOf(map: MapData, share: number): number {
  const ofMap = known.get(map) ?? new Map<number, number>();
  const quantile = ofMap.get(share) ?? find(binsOf(map), share, map.stats.absMax);
  known.set(map, ofMap.set(share, quantile));
  return quantile;
}

/** The number of values in each bin: the upper bits of |x| as a float32, so that a bin is at most 1/64 wide. */
function binsOf({ rows, cols, values, present, absent }: MapData): Uint32Array<ArrayBuffer> {
  const bits = bitsOf(values);
  const bins = new Uint32Array(kBins);
  for (let row = 0; row < rows; row++) {
    if (present[row] === 0) continue;
    for (let i = row * cols; i < (row + 1) * cols; i++) {
      bins[(bits[i] & 0x7fffffff) >> kDroppedBits] += 1;
    }
  }
  absent?.forEach((missing, i) => {
    if (missing === 1 && present[Math.floor(i / cols)] === 1) {
      bins[(bits[i] & 0x7fffffff) >> kDroppedBits] -= 1;
    }
  });
  return bins;
}

function bitsOf(values: Floats): Int32Array<ArrayBuffer> {
  const floats = values instanceof Float32Array ? values : Float32Array.from(values, nearest);
  return new Int32Array(floats.buffer, floats.byteOffset, floats.length);
}

function nearest(value: number): number {
  return Number.isFinite(value) ? Math.min(Math.max(value, -kLargest), kLargest) : value;
}

/** The upper edge of the bin that holds the quantile. */
function find(bins: Uint32Array, share: number, absMax: number): number {
  const finite = bins.subarray(0, kNotFinite).reduce((sum, count) => sum + count, 0);
  let above = finite - Math.ceil(share * finite);
  let bin = kNotFinite - 1;
  for (; bin > 0 && bins[bin] <= above; bin--) above -= bins[bin];
  if (bin === 0) return absMax;
  floatBits[0] = (bin + 1) << kDroppedBits;
  return Math.min(absMax, float[0]);
}
