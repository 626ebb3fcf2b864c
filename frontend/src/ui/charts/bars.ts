import type { CompressorFacts } from '../../protocol/messages';

/** An SVG path of bars, each one unit wide, in a box of one unit's height; the tallest fills it. */
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
 * What the bins of `stats` divide: a range, evenly, or the powers of two from 2^-32 on, zeros left
 * out. The first and the last bin take what lies beyond.
 */
export type BinRange = readonly [number, number] | 'powers' | 'unknown';

const kZerothPower = 32; // the bin from 1 on

/** Of a compressor; undefined: nobody knows it. */
export function rangeOf(of: Pick<CompressorFacts, 'range'> | undefined): BinRange {
  return of === undefined ? 'unknown' : (of.range ?? 'powers');
}

/** What the bars of a histogram of `numbers` count. */
export function barsUnit(numbers: string, range: BinRange): string {
  return range === 'powers' ? `count by |${numbers}|` : `count by ${numbers}`;
}

/** A word below the axis; `at` is 0 at its left end and 1 at its right one. */
export interface BinTick {
  readonly at: number;
  readonly text: string;
}

const kPowersApart = 16;

/** The ends of the axis, and of powers of two every sixteenth between them, of a range its middle. */
export function binTicks(
  bins: number,
  range: BinRange,
  format: (value: number) => string,
): readonly BinTick[] {
  if (range === 'unknown' || bins === 0) return [];
  const edge = (bin: number): string => edgeName(bin, bins, range, format);
  const apart = range === 'powers' ? kPowersApart : bins / 2;
  const ticks = [{ at: 0, text: `≤ ${edge(0)}` }];
  for (let bin = apart; bin < bins; bin += apart) ticks.push({ at: bin / bins, text: edge(bin) });
  return [...ticks, { at: 1, text: `≥ ${edge(bins)}` }];
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
