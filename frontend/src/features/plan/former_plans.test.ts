import { expect, test } from 'vitest';
import type { PastPlan } from '../../core/store/plan_history';
import { formerPlans } from './former_plans';

const past = (number: number, since: number, who: string, ...points: string[]): PastPlan => ({
  plan: { number, entries: points.map((point) => ({ point })) },
  ...{ since, who },
});

test('former plans say from when to when they were in force, who asked, and what they changed', () => {
  const all = [
    past(1, 0, '', 'HiddenStates', 'QKV'),
    past(2, 5, 'Ada', 'HiddenStates', 'QKV', 'MLP1'),
    past(3, 9, '', 'HiddenStates', 'QKV', 'MLP1'),
    past(5, 30, '', 'MLP1'),
  ];
  const told = formerPlans(all, 5).map(({ plan, when, text }) => [plan.number, when, text]);
  expect(told).toEqual([
    [3, 'steps 9–29', 'the same entries'],
    [2, 'steps 5–8 · Ada', '+ MLP1'],
    [1, 'steps 1–4', 'HiddenStates, QKV'],
  ]);
  expect(formerPlans([past(4, 0, ''), past(5, 0, '')], 5)[0]).toMatchObject({
    ...{ when: 'from step 1', text: 'nothing is traced' },
  });
  expect(formerPlans(all, 3)[0]).toMatchObject({ when: 'from step 30', text: 'MLP1' });
});
