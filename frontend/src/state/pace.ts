import type { StepFacts } from '../protocol/messages';

const kStepsAveraged = 20;

/** Seconds until the last step, as the middle one of the newest steps goes; null: not known. */
export function secondsLeft(
  facts: readonly StepFacts[],
  step: number,
  total: number | undefined,
): number | null {
  if (total === undefined) return null;
  const times = facts
    .slice(-kStepsAveraged)
    .map(({ step_ms }) => step_ms)
    .filter((each): each is number => Number.isFinite(each))
    .sort((a, b) => a - b);
  const middle = times[times.length >>> 1];
  return middle === undefined ? null : (Math.max(0, total - step) * middle) / 1000;
}
