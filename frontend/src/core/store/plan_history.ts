import { object, read } from '../../base/schema';
import { type AuditLine, type Plan, planEventSchema, planSchema } from '../../protocol/messages';
import { keysOfPlan } from './series_key';

/** A plan of the run, its first step, and the person who requested it. */
export interface PastPlan {
  readonly plan: Plan;
  /** The first step under the plan; 0 if it was in force from the beginning, or if not known. */
  readonly since: number;
  /** The person who requested the plan; '' if not known. */
  readonly who: string;
}

/** A range of steps, both ends included, in which a series is an entry of the plan. */
export interface Stretch {
  readonly first: number;
  readonly last: number;
  readonly entry: number;
}

// A plan has a few KiB. A script may set very many plans.
const kMaxPlans = 1000;
const kUnknown = { since: 0, who: '' };
const kAskedSchema = object({ result: planEventSchema });
const kBegunSchema = object({ plan: planSchema });

/** The newest plans of a run by number. Old plans are kept, because their records are kept. */
export class PlanHistory {
  private plans: readonly PastPlan[] = [];

  get all(): readonly PastPlan[] {
    return this.plans;
  }

  of(number: number): PastPlan | undefined {
    return this.plans.find(({ plan }) => plan.number === number);
  }

  /** Adds a plan that came into force. */
  add(plan: Plan, since = 0, who = ''): void {
    const known = this.of(plan.number) ?? kUnknown;
    const told: PastPlan = {
      plan,
      since: known.since > 0 ? known.since : since,
      who: known.who === '' ? who : known.who,
    };
    const others = this.plans.filter((each) => each !== known);
    this.plans = [...others, told].sort((a, b) => a.plan.number - b.plan.number).slice(-kMaxPlans);
  }

  /** Adds the plans of `run` in lines of the audit trail. A plan that is already known is kept. */
  recall(lines: readonly AuditLine[], run: string): void {
    for (const line of lines) {
      const told = line.run === run ? planOf(line) : undefined;
      if (told === undefined) continue;
      this.add(this.of(told.plan.number)?.plan ?? told.plan, told.since, told.who);
    }
  }

  clear(): void {
    this.plans = [];
  }

  /** The stretches in which a plan contains the series, up to the step `last`, the newest first. */
  stretchesOf(key: string, last: number): readonly Stretch[] {
    const stretches: Stretch[] = [];
    let end = last;
    for (const { plan, since } of this.plans.toReversed()) {
      const first = plan === this.plans[0].plan ? 1 : Math.max(1, since);
      const entry = keysOfPlan(plan).indexOf(key);
      if (entry >= 0 && first <= end) {
        const later = stretches.at(-1);
        const isOne = later?.entry === entry && later.first === end + 1;
        if (isOne) stretches[stretches.length - 1] = { ...later, first };
        else stretches.push({ first, last: end, entry });
      }
      end = Math.min(end, first - 1);
    }
    return stretches;
  }
}

function planOf({ kind, step, detail, who }: AuditLine): PastPlan | undefined {
  if (kind === 'plan.set') {
    const set = read(kAskedSchema, detail)?.result;
    return set && { plan: set.plan, since: set.step, who };
  }
  if (kind === 'plan') {
    const told = read(planEventSchema, detail);
    return told && { plan: told.plan, since: told.step, who: '' };
  }
  const begun = kind === 'run' ? read(kBegunSchema, detail)?.plan : undefined;
  return begun && { plan: begun, since: step, who: '' };
}
