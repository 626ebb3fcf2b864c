import { expect, test } from 'vitest';
import type { PlanEntry } from '../../protocol/messages';
import { changesOf } from './plan_diff';
import type { PlanRow } from '../../core/registry/plan_feature';
import { rowsOf } from './plan_row';

function rows(...entries: PlanEntry[]): PlanRow[] {
  return rowsOf({ number: 1, entries }, []);
}

const kHidden: PlanEntry = { point: 'HiddenStates', compressor: { kind: 'tile', tiles: 64 } };
const kStats: PlanEntry = { point: 'HiddenStates', compressor: { kind: 'stats' } };
const kMlp: PlanEntry = { point: 'MLP1', compressor: { kind: 'tile', tiles: 32 } };

test('a plan in other words is no change', () => {
  const said = { ...kMlp, direction: 'value', rows: 1, micro_batches: '0', every: 1 } as const;
  expect(changesOf(rows(kHidden, said), rows(kHidden, kMlp))).toEqual([]);
});

test('members are told with what they were', () => {
  const after: PlanEntry = {
    ...kMlp,
    layers: '2-3',
    every: 10,
    rows: 0,
    dtype: 'bf16',
    phases: ['train', 'eval'],
    compressor: { kind: 'tile', tiles: 16, method: 'data.std(dim=-1)' },
  };
  expect(changesOf(rows(kHidden, kMlp), rows(kHidden, after))).toEqual([
    {
      kind: 'changed',
      entry: 2,
      point: 'MLP1',
      members: [
        'layers all → 2-3',
        'tiles 32 → 16',
        'method mean → data.std(dim=-1)',
        'every 1 → 10',
        'phases train → train + eval',
        'rows 1 → all',
        'dtype f32 → bf16',
      ],
    },
  ]);
  const off = { ...kMlp, enabled: false };
  expect(changesOf(rows(kMlp), rows(off))).toMatchObject([{ members: ['off'] }]);
  const prompted = { ...kMlp, prompts: 'probes' };
  expect(changesOf(rows(kMlp), rows(prompted))).toMatchObject([
    { members: ["data the run's own → probes"] },
  ]);
});

test('an entry keeps its partner when others come, go or move', () => {
  expect(changesOf(rows(kHidden, kMlp), rows(kStats, kHidden, kMlp))).toEqual([
    { kind: 'added', entry: 1, point: 'HiddenStates', members: [] },
  ]);
  expect(changesOf(rows(kHidden, kMlp), rows(kMlp))).toEqual([
    { kind: 'removed', entry: 1, point: 'HiddenStates', members: [] },
  ]);
  const changed = changesOf(rows(kHidden, kMlp), rows({ point: 'QKV' }, kMlp));
  expect(changed.map(({ kind, point }) => [kind, point])).toEqual([
    ['removed', 'HiddenStates'],
    ['added', 'QKV'],
  ]);
  expect(changesOf(rows(kHidden, kMlp), rows(kMlp, kHidden))).toEqual([
    { kind: 'moved', entry: 2, point: 'HiddenStates', members: [] },
  ]);
  expect(changesOf(rows(kHidden, kStats), rows(kStats, kHidden))).toMatchObject([
    { kind: 'moved', entry: 2 },
  ]);
});

test('another compressor of a point is a change of it', () => {
  expect(changesOf(rows(kHidden), rows(kStats))).toEqual([
    {
      kind: 'changed',
      entry: 1,
      point: 'HiddenStates',
      members: ['compressor tile → stats', 'histogram |x|'],
    },
  ]);
});
