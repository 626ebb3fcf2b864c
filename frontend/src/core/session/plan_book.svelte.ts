import type {
  AuditLine,
  CompressorFacts,
  OtherRunFacts,
  Plan,
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

/** The compressor of a frame's records; undefined if their plan is not known. */
export function compressorFor(
  { run: own, plans, otherRuns }: Runs,
  { query, plan: number, entry: index }: Made,
): CompressorFacts | undefined {
  const other = otherRuns.find(({ id }) => id === query.run)?.facts;
  const run = query.run === '' ? own : other;
  const plan = query.run === '' ? plans.of(number) : (other?.plan ?? undefined);
  const entry = plan?.number === number ? plan.entries[index] : undefined;
  if (entry === undefined) return undefined;
  return compressorOf(
    entry,
    run?.points.find(({ name }) => name === entry.point),
  );
}
