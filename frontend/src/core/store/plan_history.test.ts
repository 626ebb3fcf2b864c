import { expect, test } from 'vitest';
import type { AuditLine, Plan, PlanEntry } from '../../protocol/messages';
import { PlanHistory } from './plan_history';
import { keyOfEntry } from './series_key';

const kStats: PlanEntry = { point: 'HiddenStates', compressor: { kind: 'stats' } };
const kTiles: PlanEntry = { point: 'MLP1' };
const planOf = (number: number, ...entries: PlanEntry[]): Plan => ({ number, entries });
const lineOf = (kind: string, step: number, detail: unknown, who = ''): AuditLine => ({
  ...{ id: 1, run: '5f0c', time_ns: 1, kind, step, detail, who },
});

test('the plans of a run stand in their order, with the step and who asked', () => {
  const plans = new PlanHistory();
  plans.add(planOf(3, kTiles));
  plans.recall(
    [
      lineOf('run', 0, { plan: planOf(1, kTiles) }),
      lineOf('plan', 4, { plan: planOf(2, kStats), step: 5 }),
      lineOf('plan.set', 4, { result: { plan: planOf(2, kStats), step: 5, ranks: 2 } }, 'Ada'),
      lineOf('plan', 8, { plan: planOf(3), step: 9 }),
      lineOf('plan', 9, { plan: 'none' }),
      { ...lineOf('plan', 9, { plan: planOf(7), step: 9 }), run: '77' },
    ],
    '5f0c',
  );
  expect(plans.all).toEqual([
    { plan: planOf(1, kTiles), since: 0, who: '' },
    { plan: planOf(2, kStats), since: 5, who: 'Ada' },
    { plan: planOf(3, kTiles), since: 9, who: '' },
  ]);
  plans.clear();
  expect(plans.all).toEqual([]);
});

test('a series is where its entry is, under whatever number', () => {
  const plans = new PlanHistory();
  plans.add(planOf(1, kStats));
  plans.add(planOf(2, kStats, kTiles), 10);
  plans.add(planOf(3, kTiles), 20);
  plans.add(planOf(4, kTiles, kStats), 30);
  const key = keyOfEntry(kStats);
  expect(plans.stretchesOf(key, 40)).toEqual([
    { first: 30, last: 40, entry: 1 },
    { first: 1, last: 19, entry: 0 },
  ]);
  expect(plans.stretchesOf(key, 25)).toEqual([{ first: 1, last: 19, entry: 0 }]);
  expect(plans.stretchesOf(key, 9)).toEqual([{ first: 1, last: 9, entry: 0 }]);
  expect(plans.stretchesOf(key, 0)).toEqual([]);
  expect(plans.stretchesOf(keyOfEntry({ point: 'QKV' }), 40)).toEqual([]);
});
