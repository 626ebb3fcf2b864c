import { expect, test } from 'vitest';
import type { PlanEntry } from '../../protocol/messages';
import { planChange } from './plan_change';

const kStates: PlanEntry = { point: 'HiddenStates', compressor: { kind: 'tile', tiles: 64 } };
const kStats: PlanEntry = { point: 'MLP1', layers: '2-3', compressor: { kind: 'stats' } };
const change = (before: PlanEntry[], after: PlanEntry[]): string =>
  planChange({ number: 1, entries: before }, { number: 2, entries: after });

test('a change of the plan is told by its entries', () => {
  expect(change([kStates], [kStates, kStats])).toBe('+ MLP1 stats 2-3');
  const slopes: PlanEntry = { point: 'QKV', direction: 'gradient' };
  expect(change([kStates, slopes], [kStates])).toBe('− QKV gradient');
  const probes: PlanEntry = { ...kStates, prompts: 'probes' };
  expect(change([kStats], [probes])).toBe('+ HiddenStates probes tile 64, − MLP1 stats 2-3');
  expect(change([kStates], [{ ...kStates, compressor: { kind: 'tile', tiles: 8 } }])).toBe(
    '+ HiddenStates tile 8, − HiddenStates tile 64',
  );
});

test('what an entry still holds is told by what of it comes', () => {
  expect(change([kStats], [{ ...kStats, layers: undefined, every: 10, enabled: false }])).toBe(
    'MLP1 off, layers 2-3 → all, every 1 → 10',
  );
  expect(change([kStates], [{ ...kStates, phases: ['train', 'eval'], dtype: 'u8' }])).toBe(
    'HiddenStates phases train → train+eval, dtype f32 → u8',
  );
  expect(change([kStates, kStats], [kStats, kStates])).toBe('');
});
