import type { CompressorFacts, OtherRunFacts, Plan, RunFacts } from '../protocol/messages';
import type { FrameBase, ViewQuery } from '../store/frames';
import { compressorOf } from './watched';

const kMostPlans = 64;

/** The plans of the run by their numbers, the newest of them: records outlive the plan in force. */
export class PlanBook {
  private plans = $state.raw<readonly Plan[]>([]);

  add(plan: Plan): void {
    const others = this.plans.filter(({ number }) => number !== plan.number);
    this.plans = [...others, plan].slice(-kMostPlans);
  }

  clear(): void {
    this.plans = [];
  }

  of(number: number): Plan | undefined {
    return this.plans.find((plan) => plan.number === number);
  }
}

interface Runs {
  readonly run: RunFacts | null;
  readonly plans: PlanBook;
  readonly comparison: { readonly runs: readonly OtherRunFacts[] };
}

type Made = Pick<FrameBase, 'plan' | 'entry'> & { readonly query: Pick<ViewQuery, 'run'> };

/** The compressor that a frame's records come from; undefined: their plan is not known. */
export function compressorFor(
  { run: own, plans, comparison }: Runs,
  { query, plan: number, entry: index }: Made,
): CompressorFacts | undefined {
  const other = comparison.runs.find(({ id }) => id === query.run)?.facts;
  const run = query.run === '' ? own : other;
  const plan = query.run === '' ? plans.of(number) : (other?.plan ?? undefined);
  const entry = plan?.number === number ? plan.entries[index] : undefined;
  if (entry === undefined) return undefined;
  return compressorOf(
    entry,
    run?.points.find(({ name }) => name === entry.point),
  );
}
