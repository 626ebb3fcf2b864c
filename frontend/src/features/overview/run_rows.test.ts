import { expect, test } from 'vitest';
import type { LeaderFacts } from '../../core/worker/leaders';
import { leaderRows, missingRows } from './run_rows';

const kLeader: LeaderFacts = {
  tensor: 0,
  pipeline: 1,
  data: 0,
  step: 100,
  spacing: 1,
  missed: 0,
  delayMs: 12,
};
const valueOf = (change: Partial<LeaderFacts>): string =>
  leaderRows([{ ...kLeader, ...change }], 1099)[0].value;

test('a rank is behind by the steps that it takes', () => {
  expect(valueOf({})).toBe('step 100 · 999 behind · 12\u00a0ms');
  expect(valueOf({ spacing: 500, missed: 4 })).toBe('step 100 · 1 behind · 12\u00a0ms · 4 lost');
  expect(valueOf({ spacing: 1000 })).toBe('step 100 · up to date · 12\u00a0ms');
});

test('what is not known of a rank is not told', () => {
  expect(valueOf({ spacing: null })).toBe('step 100 · 12\u00a0ms');
  expect(valueOf({ spacing: null, delayMs: null })).toBe('step 100');
  expect(leaderRows([{ ...kLeader, spacing: null }], 1099)[0].tone).toBeUndefined();
});

test('a stage without a leader is missing until the run has ended', () => {
  const parts = [
    { stage: 0, rank: 0, connected: true },
    { stage: 1, rank: 8, connected: false },
    { stage: 2, connected: false },
  ];
  expect(missingRows(parts, 'training')).toMatchObject([
    { name: 'PP 1', value: 'missing · rank 8', tone: 'warn' },
    { name: 'PP 2', value: 'missing' },
  ]);
  expect(missingRows(parts, 'finished')).toEqual([]);
  expect(missingRows([], 'training')).toEqual([]);
});
