import type { StepFacts } from '../../protocol/messages';

/** If there are more steps, they are thinned out: only every second, fourth, … step is kept. */
export const kMaxSteps = 100_000;

/** The power of two by which `steps` steps have to be thinned out, so that at most `most` remain. */
export function strideFor(steps: number, most = kMaxSteps): number {
  let stride = 1;
  while (steps / stride > most) stride *= 2;
  return stride;
}

/** Whether a step is kept. Steps with a validation loss are always kept, because they are few. */
export function keepsStep(facts: StepFacts, stride: number): boolean {
  return facts.step % stride === 0 || typeof facts.valid_loss === 'number';
}

/** The scalars of a run by step, without duplicates, ascending. */
export class SeriesStore {
  private facts: StepFacts[] = [];
  private thinned = 1;
  private restarted = false;

  get length(): number {
    return this.facts.length;
  }

  get last(): StepFacts | undefined {
    return this.facts.at(-1);
  }

  get all(): readonly StepFacts[] {
    return this.facts;
  }

  /** The largest distance of two adjacent steps that is not a gap. */
  get stride(): number {
    return this.thinned;
  }

  /** The scalars up to a step. */
  upTo(step: number): readonly StepFacts[] {
    return this.facts.slice(0, firstFrom(this.facts, step + 1));
  }

  clear(): void {
    this.facts = [];
    this.thinned = 1;
    this.restarted = false;
  }

  /**
   * To be called when a connection or a worker begins again: the next step that arrives replaces all
   * steps from its number on. So a repeated history adds no duplicates, and the lost last steps of a
   * resumed run are removed.
   */
  restart(): void {
    this.restarted = true;
  }

  add(facts: StepFacts): void {
    if (this.restarted) {
      this.restarted = false;
      this.facts.length = firstFrom(this.facts, facts.step);
    }
    const at = firstFrom(this.facts, facts.step);
    if (at === this.facts.length) this.push(facts);
    else if (this.facts[at].step === facts.step) this.facts[at] = { ...this.facts[at], ...facts };
    else this.facts.splice(at, 0, facts);
  }

  /**
   * Adds past steps, ascending. Members that arrived live have priority. Past steps after the newest
   * live step are left out, because the run has lost them; with `whole`, they are kept.
   */
  merge(past: readonly StepFacts[], stride: number, whole = false): void {
    const end = whole ? undefined : this.last?.step;
    const byStep = new Map<number, StepFacts>();
    for (const each of past) if (end === undefined || each.step <= end) byStep.set(each.step, each);
    for (const each of this.facts) byStep.set(each.step, { ...byStep.get(each.step), ...each });
    // A stable sort of two ascending runs takes one pass.
    this.facts = [...byStep.values()].sort((a, b) => a.step - b.step);
    this.thinned = Math.max(this.thinned, stride);
    this.thinOut();
  }

  private push(facts: StepFacts): void {
    this.facts.push(facts);
    this.thinOut();
  }

  /** Thins out only at twice the limit, so that it runs rarely. */
  private thinOut(): void {
    if (this.facts.length <= 2 * kMaxSteps) return;
    const { last } = this;
    this.thinned *= 2;
    this.facts = this.facts.filter((each) => each === last || keepsStep(each, this.thinned));
  }
}

/** The scalars of a step; undefined for a row that marks a gap. */
export function factsAt(facts: readonly StepFacts[], step: number): StepFacts | undefined {
  const found = facts[firstFrom(facts, step)];
  return found?.step === step ? found : undefined;
}

/** The newest validation loss up to a step. */
export function lastValid(facts: readonly StepFacts[], step: number): number | undefined {
  for (let i = firstFrom(facts, step + 1) - 1; i >= 0; i--) {
    const value = facts[i].valid_loss;
    if (typeof value === 'number') return value;
  }
  return undefined;
}

/** The index of the first scalars whose step is at least `step`. */
function firstFrom(facts: readonly StepFacts[], step: number): number {
  let low = 0;
  let high = facts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (facts[middle].step < step) low = middle + 1;
    else high = middle;
  }
  return low;
}

export type Column = (number | null)[];

/**
 * Columns for a chart: one row for each step, and a row of nulls for each gap, where two steps are more
 * than `stride` apart.
 */
export interface Columns {
  readonly steps: number[];
  readonly loss: Column;
  readonly gradNorm: Column;
  readonly validLoss: Column;
  readonly rate: Column;
  readonly speed: Column;
}

export function toColumns(facts: readonly StepFacts[], stride = 1): Columns {
  const columns: Columns = {
    steps: [],
    loss: [],
    gradNorm: [],
    validLoss: [],
    rate: [],
    speed: [],
  };
  let previous: number | undefined;
  for (const fact of facts) {
    if (previous !== undefined && fact.step > previous + stride) pushRow(columns, previous + 1, {});
    pushRow(columns, fact.step, fact);
    previous = fact.step;
  }
  return columns;
}

function pushRow(columns: Columns, step: number, facts: Partial<StepFacts>): void {
  columns.steps.push(step);
  columns.loss.push(finite(facts.loss));
  columns.gradNorm.push(finite(facts.grad_norm));
  columns.validLoss.push(finite(facts.valid_loss));
  columns.rate.push(finite(facts.lr));
  columns.speed.push(finite(facts.tokens_per_second));
}

/** A value for a curve; null, a gap, if it is not finite. */
export function finite(value: number | null | undefined): number | null {
  return value === null || value === undefined || !Number.isFinite(value) ? null : value;
}

/**
 * Exponential moving average, debiased: the average of the points so far, with weights that decrease
 * by `factor` for each point, so that the first points are not biased to 0. Gaps stay gaps.
 */
export function debiasedEma(values: Column, factor: number): Column {
  if (factor <= 0) return values;
  let sum = 0;
  let weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = factor * sum + (1 - factor) * value;
    weight = factor * weight + (1 - factor);
    return sum / weight;
  });
}
