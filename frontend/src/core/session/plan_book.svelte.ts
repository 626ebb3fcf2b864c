import type {
  AuditLine,
  CompressorFacts,
  OtherRunFacts,
  Plan,
  PlanEntry,
  RunFacts,
} from '../../protocol/messages';
import type { FrameBase, ViewQuery } from '../store/frames';
import { PlanHistory } from '../store/plan_history';
import { compressorOf } from './watched';

/** The plans of the run as reactive state. Old plans are kept, because their records are kept. */
export class PlanBook {
  private readonly history = new PlanHistory();
  private version = $state(0);
  /** The plan of the last answer that had records; this plan was never in force. */
  private answered = $state.raw<Plan | null>(null);
  /** The plans in the order of their numbers. */
  readonly all = $derived.by(() => (this.version < 0 ? [] : this.history.all));

  add(plan: Plan, since = 0): void {
    this.history.add(plan, since);
    this.version += 1;
  }

  /** Adds a plan that was made only for one answer. */
  lend(plan: Plan): void {
    this.answered = plan;
  }

  recall(lines: readonly AuditLine[], run: string): void {
    this.history.recall(lines, run);
    this.version += 1;
  }

  clear(): void {
    this.history.clear();
    this.version += 1;
  }

  of(number: number): Plan | undefined {
    if (number === this.answered?.number) return this.answered;
    return this.version < 0 ? undefined : this.history.of(number)?.plan;
  }
}

interface Runs {
  readonly run: RunFacts | null;
  readonly plans: PlanBook;
  readonly otherRuns: readonly OtherRunFacts[];
}

type Made = Pick<FrameBase, 'plan' | 'entry'> & { readonly query: Pick<ViewQuery, 'run'> };

/** The entry of a frame's records; undefined if their plan is not known. */
export function entryFor(
  { plans, otherRuns }: Omit<Runs, 'run'>,
  { query, plan: number, entry }: Made,
): PlanEntry | undefined {
  const other = otherRuns.find(({ id }) => id === query.run)?.facts;
  const plan = query.run === '' ? plans.of(number) : (other?.plan ?? undefined);
  return plan?.number === number ? plan.entries[entry] : undefined;
}

/** The compressor of a frame's records; undefined if their plan is not known. */
export function compressorFor(runs: Runs, made: Made): CompressorFacts | undefined {
  const entry = entryFor(runs, made);
  if (entry === undefined) return undefined;
  const { run } = made.query;
  const facts = run === '' ? runs.run : runs.otherRuns.find(({ id }) => id === run)?.facts;
  return compressorOf(
    entry,
    facts?.points.find(({ name }) => name === entry.point),
  );
}
