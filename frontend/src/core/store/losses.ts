import type { StepFacts } from '../../protocol/messages';
import { type Column, type Columns } from './series_store';

/** A step and its loss. */
export type StepLoss = readonly [step: number, loss: number];

/** The losses that a curve can show: steps without a loss and losses that are not finite are left out. */
export function lossesOf(facts: readonly StepFacts[]): readonly StepLoss[] {
  return facts.flatMap(({ step, loss }) =>
    typeof loss === 'number' && Number.isFinite(loss) ? [[step, loss] as const] : [],
  );
}

/** The losses at these ascending steps, interpolated; null before the first and after the last. */
export function lossesAt(steps: readonly number[], losses: readonly StepLoss[]): Column {
  let next = 0;
  return steps.map((step) => {
    while (next < losses.length && losses[next][0] < step) next++;
    if (next === losses.length) return null;
    const [later, loss] = losses[next];
    if (later === step) return loss;
    if (next === 0) return null;
    const [earlier, before] = losses[next - 1];
    return before + ((loss - before) * (step - earlier)) / (later - earlier);
  });
}

/**
 * The columns of a run, with empty rows for the steps of other runs before its first step and after
 * its last step, so that the axis contains all runs. Between them, only the run's own steps have rows.
 */
export function widened(columns: Columns, others: readonly (readonly StepLoss[])[]): Columns {
  const { steps } = columns;
  const first = steps[0] ?? Infinity;
  const last = steps.at(-1) ?? -Infinity;
  const theirs = [...new Set(others.flatMap((losses) => losses.map(([step]) => step)))];
  theirs.sort((a, b) => a - b);
  const before = theirs.filter((step) => step < first);
  const after = steps.length === 0 ? [] : theirs.filter((step) => step > last);
  if (before.length + after.length === 0) return columns;
  return extended(
    columns,
    before.map((step) => [step, null]),
    after,
  );
}

/** The columns of a run, and before its first step the earlier losses of the runs that it continues. */
export function withPast(columns: Columns, past: readonly StepLoss[]): Columns {
  const first = columns.steps[0] ?? Infinity;
  const before = past.filter(([step]) => step < first);
  return before.length === 0 ? columns : extended(columns, before, []);
}

/** The columns with rows before them, which have only a loss or nothing, and empty rows after them. */
function extended(
  columns: Columns,
  before: readonly (readonly [step: number, loss: number | null])[],
  after: readonly number[],
): Columns {
  const within = (values: Column): Column => [
    ...before.map(() => null),
    ...values,
    ...after.map(() => null),
  ];
  return {
    steps: [...before.map(([step]) => step), ...columns.steps, ...after],
    loss: [...before.map(([, loss]) => loss), ...columns.loss, ...after.map(() => null)],
    gradNorm: within(columns.gradNorm),
    validLoss: within(columns.validLoss),
    rate: within(columns.rate),
    speed: within(columns.speed),
  };
}
