import type { StepFacts } from '../../protocol/messages';

const kSteps = 20;

/** The median of the newest step times in seconds; null if no step time is known. */
function secondsPerStep(facts: readonly StepFacts[]): number | null {
  const times = facts
    .slice(-kSteps)
    .map(({ step_ms }) => step_ms)
    .filter((time): time is number => typeof time === 'number' && time > 0)
    .sort((a, b) => a - b);
  const middle = times[times.length >>> 1];
  return middle === undefined ? null : middle / 1000;
}

/** The number of steps per second; null before the first step. */
export function stepsPerSecond(facts: readonly StepFacts[]): number | null {
  const seconds = secondsPerStep(facts);
  return seconds === null ? null : 1 / seconds;
}

/** The seconds until the last step, at the pace of the newest steps; null if not known. */
export function secondsLeft(
  facts: readonly StepFacts[],
  step: number,
  total: number | undefined,
): number | null {
  const seconds = secondsPerStep(facts);
  if (total === undefined || seconds === null) return null;
  return Math.max(0, total - step) * seconds;
}
