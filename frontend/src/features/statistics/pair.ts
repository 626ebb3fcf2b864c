import type { PairBase } from '../../core/store/frame_pair';
import { kStatNames, type StatsFrame } from './frame';

export interface StatsPair extends PairBase<StatsFrame> {
  /** The numbers of kStatNames for each of `layers`; NaN if a side lacks the layer. */
  readonly tables: {
    readonly a: Float64Array;
    readonly b: Float64Array;
    readonly difference: Float64Array;
  };
}

declare module '../../core/store/frame_pair' {
  interface FramePairs {
    readonly stats: StatsPair;
  }
}

const kStats = kStatNames.length;

/** The tables of two frames, with a row for each of `layers`. */
export function tablesOf(
  a: StatsFrame,
  b: StatsFrame,
  layers: readonly number[],
): StatsPair['tables'] {
  const of = (frame: StatsFrame): Float64Array => {
    const table = new Float64Array(layers.length * kStats).fill(Number.NaN);
    layers.forEach((layer, row) => {
      const from = frame.layers.indexOf(layer);
      if (from < 0) return;
      table.set(frame.table.subarray(from * kStats, (from + 1) * kStats), row * kStats);
    });
    return table;
  };
  const [first, second] = [of(a), of(b)];
  return { a: first, b: second, difference: first.map((value, i) => value - second[i]) };
}
