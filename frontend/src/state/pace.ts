import type { StepFacts } from '../protocol/messages';

const kSteps = 20;

/** Steps per second over the last ones; null before the first. */
export function stepsPerSecond(facts: readonly StepFacts[]): number | null {
  const times = facts
    .slice(-kSteps)
    .map(({ step_ms }) => step_ms)
    .filter((time): time is number => typeof time === 'number' && time > 0);
  if (times.length === 0) return null;
  return (1000 * times.length) / times.reduce((sum, time) => sum + time, 0);
}
