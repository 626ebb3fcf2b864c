import type {
  AppliedFacts,
  AppliedProgram,
  Program,
  SavedFacts,
} from '../../protocol/interventions';

/** The counters of a program in one step. */
export type Application = AppliedProgram & { readonly step: number };

/** The counters of a program over the steps that this page received. */
export interface Counters {
  /** The page received every step since the program came into force. */
  readonly whole: boolean;
  /** The first step that the page received. */
  readonly from: number;
  /** The first of these steps in which the program acted on a rank; null before that. */
  readonly first: Application | null;
  readonly last: Application;
  readonly forwards: number;
  readonly positions: number;
}

/** The values of one `save`: the last values, and for single numbers also the earlier values. */
export interface SavedSeries {
  readonly key: string;
  readonly last: Omit<SavedFacts, 'values'>;
  readonly count: number;
  /** The range of the finite values; NaN if no value is finite. */
  readonly least: number;
  readonly largest: number;
  /** The number of values that are not finite. */
  readonly bad: number;
  readonly head: readonly number[];
  readonly steps: readonly number[];
  readonly values: readonly number[];
}

export const kMaxPoints = 2000;
export const kMaxSeries = 200;
const kHead = 8;

/** The programs in force, their counters and their saved values. Only messages of the hub change it. */
export class InterventionStore {
  programs: readonly Program[] = [];
  private readonly counters = new Map<string, Counters>();
  private readonly series = new Map<string, SavedSeries>();

  /** A saved value was left out because there was no room for its series. */
  isFull = false;

  get saved(): readonly SavedSeries[] {
    return [...this.series.values()];
  }

  countersOf(name: string): Counters | null {
    return this.counters.get(name) ?? null;
  }

  clear(): void {
    this.programs = [];
    this.counters.clear();
    this.series.clear();
    this.isFull = false;
  }

  /** Resets the counters of each program that was removed or applied again. */
  inForce(programs: readonly Program[]): void {
    const before = this.programs;
    this.programs = programs;
    this.isFull = false;
    for (const { name } of before) {
      if (!programs.some((each) => each.name === name)) this.counters.delete(name);
    }
    for (const { name, since } of programs) {
      const known = before.find((each) => each.name === name);
      if (known?.since === since) continue;
      this.counters.delete(name);
      for (const [key, { last }] of this.series) {
        if (last.program === name) this.series.delete(key);
      }
    }
  }

  /** Stores a value that every rank uses. The hub's notification of this value may come later. */
  acknowledge(name: string, parameter: string, value: number): void {
    this.programs = this.programs.map((program) =>
      program.name !== name ? program : withValue(program, parameter, value),
    );
  }

  applied({ step, programs }: AppliedFacts): void {
    for (const each of programs) {
      const program = this.programs.find(({ name }) => name === each.name);
      if (program === undefined) continue;
      const known = this.counters.get(each.name);
      // A replay that moved back sends its steps again.
      const before = known !== undefined && known.last.step < step ? known : undefined;
      const last = { ...each, step };
      const next = before === undefined ? program.since : before.last.step + 1;
      this.counters.set(each.name, {
        whole: step === next && before?.whole !== false,
        from: before?.from ?? step,
        first: before?.first ?? (each.forwards > 0 ? last : null),
        last,
        forwards: (before?.forwards ?? 0) + each.forwards,
        positions: (before?.positions ?? 0) + each.positions,
      });
    }
  }

  took(facts: SavedFacts): void {
    const { values, ...last } = facts;
    const { program, name, layer, phase, prompt_set } = last;
    const key = JSON.stringify([program, name, layer, phase, prompt_set]);
    const known = this.series.get(key);
    if (known === undefined && !this.makeRoom()) {
      this.isFull = true;
      return;
    }
    const line = values.length === 1 ? longer(known, last.step, values[0]) : kNoLine;
    const head = values.slice(0, kHead);
    this.series.set(key, { key, last, count: values.length, head, ...rangeOf(values), ...line });
  }

  /** Makes room for one more series: deletes a series of a program that is no longer in force. */
  private makeRoom(): boolean {
    if (this.series.size < kMaxSeries) return true;
    for (const [key, { last }] of this.series) {
      if (this.programs.some(({ name }) => name === last.program)) continue;
      this.series.delete(key);
      return true;
    }
    return false;
  }
}

type Line = Pick<SavedSeries, 'steps' | 'values'>;
const kNoLine: Line = { steps: [], values: [] };

/** One number for each step; the last one if a step has several micro-batches. */
function longer(known: Line = kNoLine, step: number, value: number): Line {
  const { steps, values } = known;
  const lastStep = steps[steps.length - 1] ?? 0;
  if (step < lastStep) return { steps: [step], values: [value] };
  const kept = step === lastStep ? steps.length - 1 : steps.length;
  const from = Math.max(0, kept + 1 - kMaxPoints);
  return {
    steps: [...steps.slice(from, kept), step],
    values: [...values.slice(from, kept), value],
  };
}

function rangeOf(values: readonly number[]): Pick<SavedSeries, 'least' | 'largest' | 'bad'> {
  let [least, largest, bad] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0];
  for (const value of values) {
    if (!Number.isFinite(value)) {
      bad += 1;
      continue;
    }
    if (value < least) least = value;
    if (value > largest) largest = value;
  }
  if (bad === values.length) return { least: Number.NaN, largest: Number.NaN, bad };
  return { least, largest, bad };
}

function withValue(program: Program, parameter: string, value: number): Program {
  const parameters = program.parameters.map((each) =>
    each.name === parameter ? { ...each, value } : each,
  );
  return { ...program, parameters };
}
