import type { StepFacts } from '../protocol/messages';

/** So many steps back the loss is compared with. */
export const kTrendSteps = 100;
/** Over so many steps both ends are averaged: single steps scatter. */
const kAveraged = 10;

/**
 * How much the loss has changed over the last hundred steps, as a part of what it was; undefined
 * where there are too few steps, or one of them is not finite. `scalars`: ascending by step.
 */
export function lossTrend(
  scalars: readonly Pick<StepFacts, 'step' | 'loss'>[],
): number | undefined {
  const last = scalars.at(-1)?.step ?? 0;
  const recent = scalars.slice(-(kTrendSteps + 2 * kAveraged));
  const now = meanOf(recent, last - kAveraged, last);
  const before = meanOf(recent, last - kTrendSteps - kAveraged, last - kTrendSteps);
  if (now === undefined || before === undefined || before === 0) return undefined;
  return (now - before) / Math.abs(before);
}

/** Of the steps above `from` up to `to`. */
function meanOf(
  scalars: readonly Pick<StepFacts, 'step' | 'loss'>[],
  from: number,
  to: number,
): number | undefined {
  const losses = scalars
    .filter(({ step }) => step > from && step <= to)
    .map(({ loss }) => loss ?? Number.NaN);
  const mean = losses.reduce((sum, loss) => sum + loss, 0) / losses.length;
  return losses.length > 0 && Number.isFinite(mean) ? mean : undefined;
}
