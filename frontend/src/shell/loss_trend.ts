import type { StepFacts } from '../protocol/messages';

/** The loss is compared with the loss of this number of steps before. */
export const kTrendSteps = 100;
/** Both losses are averaged over this number of steps, because the losses of single steps scatter. */
const kAveraged = 10;

/**
 * The relative change of the loss over the last hundred steps; undefined if there are too few steps,
 * or if a loss is not finite. `scalars` are ascending by step.
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

/** The mean loss of the steps after `from` up to `to`. */
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
