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

/** What the bars of a histogram of `numbers` count. */
export function barsUnit(numbers: string, range: readonly [number, number] | undefined): string {
  return range === undefined ? `count by |${numbers}|` : `count by ${numbers}`;
}

/** What a bin of `stats` counts: even bins of a range, or powers of two from 2^-32 on. */
export function binName(
  bin: number,
  bins: number,
  range: readonly [number, number] | undefined,
  format: (value: number) => string,
): string {
  if (range === undefined) return `2^${bin - 32} ≤ |x| < 2^${bin - 31}`;
  const edge = (at: number): number => range[0] + ((range[1] - range[0]) * at) / bins;
  const low = bin === 0 ? '' : `${format(edge(bin))} ≤ `;
  const high = bin === bins - 1 ? '' : ` < ${format(edge(bin + 1))}`;
  return `${low}x${high}`;
}
