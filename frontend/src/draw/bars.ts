import type { CompressorFacts } from '../protocol/messages';

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

/** What the bins of `stats` divide: a range, evenly, or the powers of two from 2^-32 on. */
export type BinRange = readonly [number, number] | 'powers' | 'unknown';

/** Of a compressor; undefined: nobody knows it. */
export function rangeOf(of: Pick<CompressorFacts, 'range'> | undefined): BinRange {
  return of === undefined ? 'unknown' : (of.range ?? 'powers');
}

/** What the bars of a histogram of `numbers` count. */
export function barsUnit(numbers: string, range: BinRange): string {
  return range === 'powers' ? `count by |${numbers}|` : `count by ${numbers}`;
}

/** What stands at the ends of the axis. */
export function binEnds(range: BinRange, format: (value: number) => string): readonly string[] {
  if (range === 'unknown') return ['', ''];
  return range === 'powers' ? ['2^−32', '2^16'] : range.map(format);
}

export function binName(
  bin: number,
  bins: number,
  range: BinRange,
  format: (value: number) => string,
): string {
  if (range === 'unknown') return `bin ${bin}`;
  if (range === 'powers') return `2^${bin - 32} ≤ |x| < 2^${bin - 31}`;
  const edge = (at: number): number => range[0] + ((range[1] - range[0]) * at) / bins;
  const low = bin === 0 ? '' : `${format(edge(bin))} ≤ `;
  const high = bin === bins - 1 ? '' : ` < ${format(edge(bin + 1))}`;
  return `${low}x${high}`;
}
