/**
 * The usual distance of the steps of a series: the larger of `every` and the smallest distance. Steps
 * that are captured irregularly are rarely closer.
 */
export function spacingOf(steps: readonly number[], every: number): number {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 1; i < steps.length; i++) least = Math.min(least, steps[i] - steps[i - 1]);
  return Math.max(every, Number.isFinite(least) ? least : 1);
}

// A slow page misses single steps. If a line had a gap at each of them, it would not be visible.
const kGapFactor = 4;

/** The first step of the steps without a gap up to the newest step. */
export function oldestWithoutGap(steps: readonly number[], spacing: number): number | undefined {
  const at = steps.findLastIndex((step, i) => i > 0 && step - steps[i - 1] > kGapFactor * spacing);
  return steps[Math.max(0, at)];
}

/** The first step of a curve that begins later than the hub's history; undefined: it begins with the history. */
export function lateBegin(
  steps: readonly number[],
  historyBegin: number | undefined,
): number | undefined {
  const [first] = steps;
  if (first === undefined || historyBegin === undefined) return undefined;
  return first - historyBegin > kGapFactor * spacingOf(steps, 1) ? first : undefined;
}

export interface Lines {
  readonly steps: readonly number[];
  readonly values: readonly (readonly (number | null)[])[];
}

/**
 * The lines with a row of nulls at each gap, where the distance of two steps is far larger than usual.
 * The usual distance may change with the plan. It is the larger of two medians: that of the distances
 * before, and that of the distances after.
 */
export function withGaps({ steps, values }: Lines): Lines {
  const distances = steps.slice(1).map((step, i) => step - steps[i]);
  const least = distances.reduce((a, b) => Math.min(a, b), Infinity);
  const isGap = (at: number): boolean =>
    distances[at] > kGapFactor * least && distances[at] > kGapFactor * usualDistance(distances, at);
  const rows = steps.flatMap((_, i) => (i > 0 && isGap(i - 1) ? [null, i] : [i]));
  if (rows.length === steps.length) return { steps, values };
  return {
    steps: rows.map((row, at) => (row === null ? steps[(rows[at + 1] ?? 1) - 1] + 1 : steps[row])),
    values: values.map((line) => rows.map((row) => (row === null ? null : line[row]))),
  };
}

const kNeighbours = 5;

function usualDistance(distances: readonly number[], at: number): number {
  const before = distances.slice(Math.max(0, at - kNeighbours), at);
  const behind = distances.slice(at + 1, at + 1 + kNeighbours);
  return Math.max(median(before), median(behind));
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[numbers.length >>> 1] ?? 1;
}
