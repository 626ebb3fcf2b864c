import type { Cells } from '../../base/span';
import type { CompressorFacts } from '../../protocol/messages';

/** An SVG path of bars of width 1 in a box of height 1; the tallest bar fills the height. */
export function barsPath(counts: ArrayLike<number>): string {
  let most = 0;
  for (let i = 0; i < counts.length; i++) if (counts[i] > most) most = counts[i];
  if (most === 0) return '';
  let path = '';
  for (let i = 0; i < counts.length; i++) {
    const top = 1 - counts[i] / most;
    if (top < 1) path += `M${i} 1V${Number(top.toFixed(5))}H${i + 1}V1Z`;
  }
  return path;
}

/**
 * The bins of `stats`: equal parts of a range, or one for each power of two from 2^-32 on, without
 * zeros. The first and the last bin also count the values beyond them.
 */
export type BinRange = readonly [number, number] | 'powers' | 'unknown';

const kZerothPower = 32; // the bin that begins at 1

/** The bins of a compressor; 'unknown' if the compressor is not known. */
export function rangeOf(of: Pick<CompressorFacts, 'range'> | undefined): BinRange {
  return of === undefined ? 'unknown' : (of.range ?? 'powers');
}

/** The unit of the bars in a histogram of `numbers`. */
export function barsUnit(numbers: string, range: BinRange): string {
  return range === 'powers' ? `count by |${numbers}|` : `count by ${numbers}`;
}

/** A label below the axis; `at` is 0 at its left end and 1 at its right end. */
export interface BinTick {
  readonly at: number;
  readonly text: string;
}

// The most labels between the ends of the axis.
const kMaxBetween = 4;

/** The labels of the axis of the shown bins: at its ends, and at powers of two or in the middle. */
export function binTicks(
  bins: number,
  range: BinRange,
  format: (value: number) => string,
  [first, end]: Cells = [0, bins],
): readonly BinTick[] {
  const shown = end - first;
  if (range === 'unknown' || shown <= 0) return [];
  const edge = (bin: number): string => edgeName(bin, bins, range, format);
  let apart = shown / 2;
  if (range === 'powers') for (apart = 1; shown / apart > kMaxBetween; apart *= 2);
  const ticks = [{ at: 0, text: `${first === 0 ? '≤ ' : ''}${edge(first)}` }];
  const begin = range === 'powers' ? Math.ceil((first + apart / 2) / apart) * apart : first + apart;
  for (let bin = begin; bin <= end - apart / 2; bin += apart) {
    if (bin < end) ticks.push({ at: (bin - first) / shown, text: edge(bin) });
  }
  return [...ticks, { at: 1, text: `${end === bins ? '≥ ' : ''}${edge(end)}` }];
}

/** The bins from the first to the last bin that is not empty, with one more bin at each side. */
export function filledBins(counts: ArrayLike<number>, bins: number): Cells {
  let first = bins;
  let last = -1;
  for (let i = 0; i < counts.length; i++) {
    if (!(counts[i] > 0)) continue;
    first = Math.min(first, i % bins);
    last = Math.max(last, i % bins);
  }
  return last < 0 ? [0, bins] : [Math.max(0, first - 1), Math.min(bins, last + 2)];
}

/** The left edge of a bin. */
function edgeName(
  bin: number,
  bins: number,
  range: Exclude<BinRange, 'unknown'>,
  format: (value: number) => string,
): string {
  if (range !== 'powers') return format(range[0] + ((range[1] - range[0]) * bin) / bins);
  return bin === kZerothPower ? '1' : `2^${bin - kZerothPower}`.replace('-', '−');
}

export function binName(
  bin: number,
  bins: number,
  range: BinRange,
  format: (value: number) => string,
): string {
  if (range === 'unknown') return `bin ${bin}`;
  const isPowers = range === 'powers';
  const edge = (at: number): string => edgeName(at, bins, range, format);
  const least = isPowers ? '0 < ' : '';
  const low = bin === 0 ? least : `${edge(bin)} ≤ `;
  const high = bin === bins - 1 ? '' : ` < ${edge(bin + 1)}`;
  return `${low}${isPowers ? '|x|' : 'x'}${high}`;
}
