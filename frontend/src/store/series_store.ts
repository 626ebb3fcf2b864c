import type { StepFacts } from '../protocol/messages';

/** The scalars of a run by step, without duplicates, ascending. */
export class SeriesStore {
  private facts: StepFacts[] = [];
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

  clear(): void {
    this.facts = [];
    this.restarted = false;
  }

  /**
   * A connection or a worker began anew: the next step that arrives replaces everything from its
   * number on. So a repeated history gives no duplicates, and a resumed run forgets its lost end.
   */
  restart(): void {
    this.restarted = true;
  }

  add(facts: StepFacts): void {
    if (this.restarted) {
      this.restarted = false;
      this.facts.length = this.lowerBound(facts.step);
    }
    const at = this.lowerBound(facts.step);
    if (at === this.facts.length) this.facts.push(facts);
    else if (this.facts[at].step === facts.step) this.facts[at] = { ...this.facts[at], ...facts };
    else this.facts.splice(at, 0, facts);
  }

  private lowerBound(step: number): number {
    let low = 0;
    let high = this.facts.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.facts[middle].step < step) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

export type Column = (number | null)[];

/** Columns for a chart: one row per step, and a row of nulls where steps are missing. */
export interface Columns {
  readonly steps: number[];
  readonly loss: Column;
  readonly gradNorm: Column;
  readonly validLoss: Column;
}

export function toColumns(facts: readonly StepFacts[]): Columns {
  const columns: Columns = { steps: [], loss: [], gradNorm: [], validLoss: [] };
  let previous: number | undefined;
  for (const fact of facts) {
    if (previous !== undefined && fact.step > previous + 1) pushRow(columns, previous + 1, {});
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
}

function finite(value: number | null | undefined): number | null {
  return value === null || value === undefined || !Number.isFinite(value) ? null : value;
}

/**
 * Exponential moving average, debiased: the average of the points so far with weights that fall by
 * `factor` per point, so that the first points are not pulled to 0. Gaps stay gaps.
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
