import { expect, test } from 'vitest';
import { EventStore } from '../core/store/event_store';
import {
  type Notification,
  parseTextMessage,
  type PlanEntry,
  runSchema,
} from '../protocol/messages';
import { Baselines } from './baselines.svelte';

const kSeries = {
  ...{ point: 'HiddenStates', vector: 'evil', prompts: 'probes', mean_over: 'last-prompt' },
  ...{ scale: 'normalized', layers: [1, 2], values: [3, 4], change: [2, null] },
};
const kEntry: PlanEntry = {
  ...{ point: 'HiddenStates', prompts: 'probes', mean_over: 'last-prompt' },
  compressor: { kind: 'projection', vectors: ['evil'] },
};

function told(...series: object[]): Notification {
  const event = { event: 'projections', params: { step: 50, series } };
  const message = parseTextMessage(JSON.stringify(event));
  if (message.kind !== 'notification') throw new Error(message.kind);
  return message.notification;
}

function runOf(id: string): ReturnType<typeof runSchema> {
  const model = {
    ...{ num_layers: 4, hidden_size: 8, num_attention_heads: 2, vocab_size: 9, seq_length: 4 },
  };
  const mesh = { tensor: 1, pipeline: 1, data: 1 };
  return runSchema({ id, name: 'demo', mesh, model, points: [] }, 'run');
}

test('a baseline is that of the entry, the vector and the layer', () => {
  const baselines = new Baselines();
  expect(baselines.of(kEntry, 'evil', 1)).toBeNull();
  baselines.onNotification(told({ ...kSeries, baseline: [1, null], deviation: [0.5, null] }));
  expect(baselines.of(kEntry, 'evil', 1)).toEqual({ mean: 1, deviation: 0.5 });
  expect(baselines.of(kEntry, 'evil', 2)).toBeNull();
  expect(baselines.of(kEntry, 'kind', 1)).toBeNull();
  for (const other of [{ mean_over: 'response' }, { prompts: 'others' }, { point: 'MLP1' }]) {
    expect(baselines.of({ ...kEntry, ...other }, 'evil', 1)).toBeNull();
  }
});

test('each scale has its own baseline', () => {
  const baselines = new Baselines();
  const of = (scale: object): number | undefined =>
    baselines.of({ ...kEntry, compressor: { kind: 'projection', ...scale } }, 'evil', 1)?.mean;
  baselines.onNotification(
    told(
      { ...kSeries, baseline: [1, 2] },
      { ...kSeries, scale: 'raw', baseline: [10, 20] },
      { ...kSeries, scale: 'cosine', baseline: [0.5, 'NaN'] },
    ),
  );
  expect([of({}), of({ normalize: false }), of({ cosine: true })]).toEqual([1, 10, 0.5]);
});

test('a second event of a step adds its layers; a NaN is not a baseline', () => {
  const baselines = new Baselines();
  const of = (layer: number): number | undefined => baselines.of(kEntry, 'evil', layer)?.mean;
  baselines.onNotification(told({ ...kSeries, layers: [1], baseline: [1] }));
  baselines.onNotification(told({ ...kSeries, layers: [2, 3], baseline: [2, 'NaN'] }));
  expect([1, 2, 3].map(of)).toEqual([1, 2, undefined]);
});

test('one prompt, and an older recording, have no deviation', () => {
  const baselines = new Baselines();
  const one = { ...kSeries, layers: [1], baseline: [1] };
  for (const event of [{ ...one, deviation: ['NaN'] }, one]) {
    baselines.onNotification(told(event));
    expect(baselines.of(kEntry, 'evil', 1)).toEqual({ mean: 1, deviation: null });
  }
});

test('another run has none', () => {
  const baselines = new Baselines();
  baselines.onNotification(told({ ...kSeries, baseline: [1, 2] }));
  baselines.onRun(runOf('5f0c'), false);
  expect(baselines.of(kEntry, 'evil', 1)?.mean).toBe(1);
  baselines.onRun(runOf('77'), true);
  expect(baselines.of(kEntry, 'evil', 1)).toBeNull();
});

test('the means of a step are not an event of the run', () => {
  const store = new EventStore();
  expect(store.add(told({ ...kSeries, baseline: [1, 2] }), 50, 0)).toBe(false);
  expect(store.all).toEqual([]);
});
