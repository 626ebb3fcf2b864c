/** The usual distance of the steps of a series: what is captured irregularly is seldom closer. */
export function spacingOf(steps: readonly number[], every: number): number {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 1; i < steps.length; i++) least = Math.min(least, steps[i] - steps[i - 1]);
  return Math.max(every, Number.isFinite(least) ? least : 1);
}

/** The distance of neighbours that half of them do not exceed. */
function medianDistance(steps: readonly number[]): number {
  const distances = steps.slice(1).map((step, i) => step - steps[i]);
  distances.sort((a, b) => a - b);
  return distances[distances.length >>> 1] ?? 1;
}

// A slow page misses single steps; a line that breaks at each of them would not be seen.
const kGapFactor = 4;

/** The first of the steps that end with the newest and have no gap. */
export function oldestWithoutGap(steps: readonly number[], spacing: number): number | undefined {
  const at = steps.findLastIndex((step, i) => i > 0 && step - steps[i - 1] > kGapFactor * spacing);
  return steps[Math.max(0, at)];
}

export interface Lines {
  readonly steps: readonly number[];
  readonly values: readonly (readonly (number | null)[])[];
}

/** The lines with a row of nulls where far more steps than usual lie between two. */
export function withGaps({ steps, values }: Lines): Lines {
  const most = kGapFactor * medianDistance(steps);
  const rows = steps.flatMap((step, i) => (i > 0 && step - steps[i - 1] > most ? [null, i] : [i]));
  if (rows.length === steps.length) return { steps, values };
  return {
    steps: rows.map((row, at) => (row === null ? steps[(rows[at + 1] ?? 1) - 1] + 1 : steps[row])),
    values: values.map((line) => rows.map((row) => (row === null ? null : line[row]))),
  };
}
