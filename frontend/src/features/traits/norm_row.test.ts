import { expect, test } from 'vitest';
import type { Session } from '../../core/session/session';
import { defaultView } from '../../core/session/url_state';
import { type WatchedEntry, watchedEntries } from '../../core/session/watched';
import type { ViewQuery } from '../../core/store/frames';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';
import { type PlanEntry, type RunFacts, runSchema } from '../../protocol/messages';
import { NormRow, ownNormEntry } from './norm_row.svelte';
import { normEntry, ownQuery } from './trait_entries';

const kModel = {
  ...{ num_layers: 2, hidden_size: 8, num_attention_heads: 2, vocab_size: 9, seq_length: 9 },
};
const kPoints = [
  { name: 'HiddenStates', flag: 7, first_layer: 1, last_layer: 2, features: 8 },
  { name: 'FinalNorm', flag: 22, first_layer: 0, last_layer: 0, features: 8 },
];
const kEvil = { kind: 'projection', vectors: ['evil'] };
const kHidden = { point: 'HiddenStates', compressor: kEvil };
const kNorm = { point: 'FinalNorm', compressor: kEvil };

function runOf(...entries: readonly PlanEntry[]): RunFacts {
  return runSchema(
    {
      ...{ id: '00000000000000bb', name: 'run', model: kModel, points: kPoints },
      ...{ vectors: ['evil', 'kind'], mesh: { tensor: 1, pipeline: 1, data: 1 } },
      prompt_sets: [{ name: 'probes', interval: 1, prompts: ['a'] }],
      plan: { number: 1, entries },
    },
    'run',
  );
}

function entriesOf(...entries: readonly PlanEntry[]): readonly WatchedEntry[] {
  const run = runOf(...entries);
  return watchedEntries(run, run.plan ?? null);
}

test('the entry at the final norm has the same projections', () => {
  const others = [
    { ...kNorm, compressor: { ...kEvil, vectors: ['kind'] } },
    { ...kNorm, compressor: { ...kEvil, cosine: true } },
    { ...kNorm, prompts: 'probes' },
    { ...kNorm, mean_over: 'response' },
    { ...kNorm, phases: ['eval'] },
    { ...kNorm, tokens: [1, 3] },
    { ...kNorm, compressor: { kind: 'stats' } },
  ] as unknown as PlanEntry[];
  const [hidden, ...rest] = entriesOf(kHidden, ...others, {
    ...kNorm,
    compressor: { ...kEvil, normalize: true },
  });
  expect(rest.length).toBe(8);
  expect(normEntry([hidden, ...rest], hidden)?.entry).toBe(8);
  expect(normEntry(rest.slice(0, -1), hidden)).toBeUndefined();
  expect(normEntry([hidden, ...rest], rest[7])).toBeUndefined();
});

test('the row follows the shown entry, and keeps no row of another entry', () => {
  const asked: (ViewQuery | null)[] = [];
  const watched = entriesOf(kHidden, kNorm);
  const session = {
    ...{ watched, point: watched[0], plan: { number: 1 }, layer: 2, phase: 'train', until: null },
    view: { ...defaultView(), tab: 'traits', step: 5 },
    everyOf: () => 1,
  } as unknown as Session;
  const link = { query: (_: string, query: ViewQuery | null) => asked.push(query) } as never;
  const row = new NormRow(link, 'norm', () => {
    const entry = ownNormEntry(session);
    return entry === undefined ? null : ownQuery(session, entry);
  });
  row.sendQuery();
  row.sendQuery();
  expect(asked).toMatchObject([{ point: 22, entry: 1, step: 5, layout: 'over', traits: true }]);
  const store = new RingStore(1e6);
  const header = { point: 22, entry: 1, layer: 0, step: 5, compressor: 4 };
  store.insert(makeRecord({ ...header, shape: [1, 2, 1] }, Float32Array.of(3, 5)));
  const frame = frameOf(store, 'traits', asked[0] ?? {});
  row.onView('beside', { frame });
  expect(row.frame).toBeNull();
  row.onView('norm', { frame });
  expect(row.frame?.overSteps.mean).toEqual(Float32Array.of(4));
  expect(asked.length).toBe(1);
  (session as { point: WatchedEntry }).point = watched[1];
  expect(row.frame).toBeNull();
  row.sendQuery();
  expect(asked.at(-1)).toBeNull();
});

test('of the run beside, the newest step is asked for before the shown one', () => {
  const asked: (ViewQuery | null)[] = [];
  const link = { query: (_: string, query: ViewQuery | null) => asked.push(query) } as never;
  const query = { run: 'b', plan: 1, entry: 1 } as ViewQuery;
  const row = new NormRow(link, 'besideNorm', (hasBegun) => ({
    ...query,
    step: hasBegun ? 5 : null,
  }));
  row.sendQuery();
  row.sendQuery();
  row.onView('besideNorm', { frame: { kind: 'traits', query } as never });
  row.sendQuery();
  expect(asked.map((each) => each?.step)).toEqual([null, 5]);
});
