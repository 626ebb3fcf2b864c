/** A stay of a line beyond a threshold. */
export interface Crossing {
  /** The first step beyond. */
  readonly step: number;
  /** The step that was inside again; null: the line is still beyond. */
  readonly until: number | null;
}

/**
 * The last stay of a line beyond a threshold: at it or above, or for a negative one at it or below;
 * NaN is beyond any. Undefined: it was never there. Gaps end no stay.
 */
export function lastCrossing(
  steps: readonly number[],
  line: readonly (number | null)[],
  threshold: number,
): Crossing | undefined {
  let start: number | undefined;
  let until: number | null = null;
  line.forEach((value, at) => {
    if (value === null) return;
    const beyond = threshold < 0 ? !(value > threshold) : !(value < threshold);
    if (beyond && (start === undefined || until !== null)) {
      start = steps[at];
      until = null;
    } else if (!beyond && start !== undefined && until === null) {
      until = steps[at];
    }
  });
  return start === undefined ? undefined : { step: start, until };
}
