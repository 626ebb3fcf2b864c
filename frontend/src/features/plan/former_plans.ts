import type { PastPlan } from '../../core/store/plan_history';
import { planChange } from '../../core/store/plan_change';
import type { Plan } from '../../protocol/messages';

/** A plan that was in force before, for the list. */
export interface FormerPlan {
  readonly plan: Plan;
  /** "steps 120–339 · Ada" */
  readonly when: string;
  /** What it changed. */
  readonly text: string;
}

/** The plans before the one in force, the newest first. */
export function formerPlans(all: readonly PastPlan[], inForce: number): readonly FormerPlan[] {
  const former = all.map((past, index): FormerPlan => {
    const [before, next] = [all[index - 1], all[index + 1]] as (PastPlan | undefined)[];
    return { plan: past.plan, when: whenOf(past, next), text: textOf(before, past) };
  });
  return former.filter(({ plan }) => plan.number !== inForce).reverse();
}

function whenOf({ since, who }: PastPlan, next: PastPlan | undefined): string {
  const first = Math.max(1, since);
  const last = (next?.since ?? 0) - 1;
  const steps = last < first ? `from step ${first}` : `steps ${first}–${last}`;
  return who === '' ? steps : `${steps} · ${who}`;
}

/** What the plan changed, where the one before it is known. */
function textOf(before: PastPlan | undefined, { plan }: PastPlan): string {
  if (before?.plan.number === plan.number - 1) {
    const change = planChange(before.plan, plan);
    return change === '' ? 'the same entries' : change;
  }
  const points = plan.entries.map(({ point }) => point);
  return points.length === 0 ? 'nothing is traced' : points.join(', ');
}
