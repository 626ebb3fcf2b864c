import type { PastPlan } from '../../core/store/plan_history';
import { planChange } from '../../core/store/plan_change';
import type { Plan } from '../../protocol/messages';

/** A former plan, for the list. */
export interface FormerPlan {
  readonly plan: Plan;
  /** The steps in force, and the viewer who asked for the plan: "steps 120–339 · Ada". */
  readonly when: string;
  /** The changes to the plan before it. */
  readonly text: string;
}

/** All plans except the one in force, the newest first. */
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

/** The changes of the plan, if the plan before it is known; else its points. */
function textOf(before: PastPlan | undefined, { plan }: PastPlan): string {
  if (before?.plan.number === plan.number - 1) {
    const change = planChange(before.plan, plan);
    return change === '' ? 'the same entries' : change;
  }
  const points = plan.entries.map(({ point }) => point);
  return points.length === 0 ? 'nothing is traced' : points.join(', ');
}
