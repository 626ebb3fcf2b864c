import { describe, expect, test } from 'vitest';
import type { PlanEntry } from '../../protocol/messages';
import { keyOfEntry, keysOfPlan, SeriesKeys } from './series_key';

const kStats: PlanEntry = {
  point: 'HiddenStates',
  compressor: { kind: 'stats', range: [-4, 4], bins: 64 },
};

describe('the key of a series', () => {
  test('is that of what the records hold, in whatever words', () => {
    const { compressor } = kStats;
    const key = keyOfEntry(kStats);
    const spelled = { direction: 'value', rows: 1, micro_batches: '0', phases: ['train'] } as const;
    expect(keyOfEntry({ ...spelled, ...kStats })).toBe(key);
    const turned = { bins: 64, range: compressor?.range, kind: 'stats' };
    expect(keyOfEntry({ ...kStats, compressor: turned })).toBe(key);
  });

  test.each<Partial<PlanEntry>>([
    { layers: '2-3' },
    { every: 10 },
    { phases: ['train', 'eval'] },
    { dtype: 'f64' },
    { enabled: false },
  ])('does not depend on which records there are: %o', (change) => {
    expect(keyOfEntry({ ...kStats, ...change })).toBe(keyOfEntry(kStats));
  });

  test.each<Partial<PlanEntry>>([
    { point: 'MLP1' },
    { direction: 'gradient' },
    { prompts: 'probes' },
    { rows: 0 },
    { rows: [1, 2] },
    { tokens: [0, 64] },
    { micro_batches: '0-3' },
    { compressor: { kind: 'tile', tiles: 64 } },
    { compressor: { kind: 'stats', range: [-4, 4], bins: 32 } },
    { compressor: { kind: 'stats' } },
  ])('depends on the numbers: %o', (change) => {
    expect(keyOfEntry({ ...kStats, ...change })).not.toBe(keyOfEntry(kStats));
  });

  test('tells tokens of prompts, their means and responses apart', () => {
    const changes: Partial<PlanEntry>[] = [
      {},
      { mean_over: 'last-prompt' },
      { mean_over: 'response', responses: true },
      { responses: true },
    ];
    const ofPrompts = { ...kStats, prompts: 'probes' };
    expect(new Set(changes.map((one) => keyOfEntry({ ...ofPrompts, ...one }))).size).toBe(4);
  });

  test('two entries that are alike are two series', () => {
    const [first, tiles, second] = keysOfPlan({
      number: 3,
      entries: [kStats, { point: 'HiddenStates' }, { ...kStats, layers: '1' }],
    });
    expect(new Set([first, tiles, second]).size).toBe(3);
    expect(keysOfPlan({ number: 4, entries: [kStats] })).toEqual([first]);
  });
});

test('an entry keeps its series at another place of another plan, and loses it with its plan', () => {
  const keys = new SeriesKeys();
  expect(keys.of(1, 0)).not.toBe(keys.of(2, 1));
  keys.learn({ number: 1, entries: [kStats] });
  keys.learn({ number: 2, entries: [{ point: 'MLP1' }, kStats] });
  expect([keys.knows(2), keys.knows(3)]).toEqual([true, false]);
  expect(keys.of(2, 1)).toBe(keys.of(1, 0));
  expect(keys.of(2, 0)).not.toBe(keys.of(1, 0));
  expect(keys.of(3, 0)).not.toBe(keys.of(1, 0));
  keys.clear();
  expect(keys.of(1, 0)).not.toBe(keys.of(2, 1));
});
