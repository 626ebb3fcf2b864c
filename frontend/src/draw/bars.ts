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

/**
 * What the bins of `stats` divide: a range, evenly, or the powers of two from 2^-32 on, zeros left
 * out. The first and the last bin take what lies beyond.
 */
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
  const [low, high] = range === 'powers' ? ['2^−32', '2^16'] : range.map(format);
  return [`≤ ${low}`, `≥ ${high}`];
}

export function binName(
  bin: number,
  bins: number,
  range: BinRange,
  format: (value: number) => string,
): string {
  if (range === 'unknown') return `bin ${bin}`;
  const isPowers = range === 'powers';
  const edge = (at: number): string =>
    isPowers
      ? `2^${at - 32}`.replace('-', '−')
      : format(range[0] + ((range[1] - range[0]) * at) / bins);
  const least = isPowers ? '0 < ' : '';
  const low = bin === 0 ? least : `${edge(bin)} ≤ `;
  const high = bin === bins - 1 ? '' : ` < ${edge(bin + 1)}`;
  return `${low}${isPowers ? '|x|' : 'x'}${high}`;
}
