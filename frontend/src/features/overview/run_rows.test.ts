import { expect, test } from 'vitest';
import type { LeaderFacts } from '../../core/worker/leaders';
import type { RunFacts } from '../../protocol/messages';
import { leaderRows, missingRows, runRows } from './run_rows';

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

test('the factors of the gradients are told, and what is not known of them', () => {
  const run: RunFacts = {
    id: 'a',
    name: 'a',
    mesh: { tensor: 1, pipeline: 1, data: 2 },
    model: {
      num_layers: 1,
      hidden_size: 8,
      num_attention_heads: 1,
      vocab_size: 8,
      seq_length: 8,
    },
    points: [],
    prompt_sets: [],
    vectors: [],
  };
  const rowOf = (gradients: RunFacts['gradients']): string | undefined =>
    runRows({ ...run, gradients }).find(({ name }) => name === 'Gradients')?.value;
  const factors = { data_parallel_size: 2, gradient_accumulation_steps: 4 };
  expect(rowOf({ ...factors, loss_scale: 0.25 })).toBe(
    'loss scale 0.25 · 4 accumulation steps · DP 2',
  );
  expect(rowOf(factors)).toBe('loss scale unknown · 4 accumulation steps · DP 2');
  expect(rowOf(undefined)).toBeUndefined();
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
