import { expect, test } from 'vitest';
import type { Plan, PointFacts } from '../protocol/messages';
import { newRow, planOf, rowsOf } from './plan_form';

const kPoints: readonly PointFacts[] = [
  { name: 'HiddenStates', flag: 7, first_layer: 1, last_layer: 4, features: 256, text: '' },
  { name: 'InputTokens', flag: 8, first_layer: 0, last_layer: 0, features: 0, text: '' },
];

test('a plan goes through the form unchanged', () => {
  const entries = [
    {
      point: 'HiddenStates',
      layers: '1-4',
      every: 5,
      phases: ['train', 'eval'],
      rows: 2,
      compressor: { kind: 'tile', tiles: 64 },
      dtype: 'bf16',
    },
    { point: 'InputTokens', every: 1, compressor: { kind: 'none' } },
  ];
  const made = planOf(rowsOf({ number: 3, entries } as Plan), kPoints);
  expect(made).toMatchObject({ ok: true });
  if (made.ok) expect(JSON.parse(JSON.stringify(made.plan))).toEqual({ entries });
});

test('no tiles means every column; no layers means all', () => {
  const row = { ...newRow(kPoints[0]), tiles: '', layers: ' ' };
  const made = planOf([row], kPoints);
  expect(made.ok && JSON.parse(JSON.stringify(made.plan.entries[0]))).toEqual({
    point: 'HiddenStates',
    every: 1,
    compressor: { kind: 'none' },
    dtype: 'f32',
  });
});

test('what is no number or no range is caught before it is sent', () => {
  const row = newRow(kPoints[0]);
  expect(planOf([row, { ...row, layers: '4-1' }], kPoints)).toMatchObject({ ok: false, row: 1 });
  expect(planOf([{ ...row, tiles: '0' }], kPoints)).toMatchObject({ ok: false, row: 0 });
  expect(planOf([{ ...row, every: '' }], kPoints)).toMatchObject({ ok: false, row: 0 });
});
