import { object, read } from '../../base/schema';
import type {
  AuditLine,
  CompressorFacts,
  OtherRunFacts,
  Plan,
  RunFacts,
} from '../../protocol/messages';
import { planSchema } from '../../protocol/messages';
import type { FrameBase, ViewQuery } from '../store/frames';
import { compressorOf } from './watched';

const kMaxPlans = 64;
const kAskedSchema = object({ result: object({ plan: planSchema }) });
const kTakenSchema = object({ plan: planSchema });

/** The plans of the run by their numbers, the newest of them: records outlive the plan in force. */
export class PlanBook {
  private plans = $state.raw<readonly Plan[]>([]);

  add(plan: Plan): void {
    const others = this.plans.filter(({ number }) => number !== plan.number);
    this.keep([...others, plan]);
  }

  /** Plans of `run` that the audit trail tells of, oldest first; what is known already stays. */
  recall(lines: readonly AuditLine[], run: string): void {
    const all = [...this.plans];
    const ofRun = lines.filter((line) => line.run === run);
    for (const plan of ofRun.map(planOf).reverse()) {
      if (plan !== undefined && all.every(({ number }) => number !== plan.number)) all.push(plan);
    }
    if (all.length > this.plans.length) this.keep(all);
  }

  clear(): void {
    this.plans = [];
  }

  of(number: number): Plan | undefined {
    return this.plans.find((plan) => plan.number === number);
  }

  private keep(plans: readonly Plan[]): void {
    this.plans = [...plans].sort((a, b) => a.number - b.number).slice(-kMaxPlans);
  }
}

function planOf({ kind, detail }: AuditLine): Plan | undefined {
  if (kind === 'plan.set') return read(kAskedSchema, detail)?.result.plan;
  return kind === 'plan' || kind === 'run' ? read(kTakenSchema, detail)?.plan : undefined;
}

interface Runs {
  readonly run: RunFacts | null;
  readonly plans: PlanBook;
  readonly otherRuns: readonly OtherRunFacts[];
}

type Made = Pick<FrameBase, 'plan' | 'entry'> & { readonly query: Pick<ViewQuery, 'run'> };

/** The compressor that a frame's records come from; undefined: their plan is not known. */
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
