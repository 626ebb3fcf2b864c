import { expect, test } from 'vitest';
import { watchedEntries } from '../../core/session/watched';
import type { Program } from '../../protocol/interventions';
import type { PointFacts, RunFacts } from '../../protocol/messages';
import { blocksOf, entryOfSizes, entryToShow, type ModelFacts, partOf, unmeasured } from './blocks';

const point = (name: string, path: string, last = 0): PointFacts => ({
  ...{ name, path, flag: path.length, first_layer: Math.min(1, last), last_layer: last },
  ...{ dims: [], features: 8, text: '', gradient_placement: undefined, formula: undefined },
});
const kPoints = [
  point('Embedding', 'embedding.output'),
  point('MLP1', 'layers[n].mlp.fc1', 3),
  point('HiddenStates', 'layers[n].output', 3),
  point('Logits', 'logits'),
  point('Updates', 'updates'),
];
const kSized = {
  points: [...kPoints, point('FinalNorm', 'final_norm.output')],
  prompt_sets: [],
} as unknown as RunFacts;
const kRun = { points: kPoints, prompt_sets: [] } as unknown as RunFacts;
const kWatched = watchedEntries(kRun, {
  number: 1,
  entries: [
    { point: 'MLP1', layers: '2-3', compressor: { kind: 'stats' } },
    { point: 'HiddenStates', compressor: { kind: 'tile' } },
    { point: 'Logits', compressor: { kind: 'topk' } },
    { point: 'Embedding', enabled: false, compressor: { kind: 'tile' } },
  ] as never,
});
const kSteer = {
  name: 'steer',
  writes: [{ point: 'HiddenStates', layer: 2 }],
} as unknown as Program;
const kFacts: ModelFacts = {
  ...{ layers: 3, points: kPoints, watched: kWatched, programs: [kSteer] },
  alarms: [{ layers: [3], message: 'too large' }],
  sizes: {
    embedding: { point: 'Embedding', step: 5, byLayer: new Map([[0, 0.5]]) },
    layer: { point: 'HiddenStates', step: 7, byLayer: new Map([[1, 4]]) },
    head: { point: 'FinalNorm', step: 7, byLayer: new Map([[0, 1]]) },
  },
};

test('a point stands in the embedding, in the layers or in the head', () => {
  expect(kPoints.map(partOf)).toEqual(['embedding', 'layer', 'layer', 'head', undefined]);
});

test('each box has its size and its marks', () => {
  const blocks = blocksOf(kFacts);
  expect(blocks.map(({ name }) => name)).toEqual([
    ...['Embedding', 'Layer 1', 'Layer 2', 'Layer 3', 'Head'],
  ]);
  expect(blocks.map(({ entries }) => entries.map(({ name }) => name))).toEqual([
    ...[[], ['HiddenStates'], ['MLP1 · stats', 'HiddenStates']],
    ...[['MLP1 · stats', 'HiddenStates'], ['Logits']],
  ]);
  expect(blocks.map(({ programs }) => programs.length)).toEqual([0, 0, 1, 0, 0]);
  expect(blocks.map(({ alarms }) => alarms.length)).toEqual([0, 0, 0, 1, 0]);
  expect(blocks.map(({ size }) => size)).toEqual([0.5, 4, undefined, undefined, 1]);
  expect([blocks[0].sizeOf, blocks[1].sizeOf]).toEqual([
    'Embedding, step 5',
    'HiddenStates, step 7',
  ]);
});

test('a size that is not finite is an alarm', () => {
  const sizes = { layer: { point: 'MLP1', step: 1, byLayer: new Map([[2, Number.NaN]]) } };
  const blocks = blocksOf({ ...kFacts, alarms: [], sizes });
  expect(blocks.map(({ alarms }) => alarms)).toEqual([[], [], ['RMS is not finite'], [], []]);
});

test('a click keeps the point that is shown, where the box has it', () => {
  const [embedding, first, second] = blocksOf(kFacts);
  expect(entryToShow(second, kWatched[1])?.name).toBe('HiddenStates');
  expect(entryToShow(second, null)?.name).toBe('MLP1 · stats');
  expect(entryToShow(first, kWatched[0])?.name).toBe('HiddenStates');
  expect(entryToShow(embedding, null)).toBeUndefined();
});

test('sizes are of statistics, best of those of the outputs', () => {
  const stats = (point: string): object => ({ point, compressor: { kind: 'stats' } });
  const watch = (...points: string[]): typeof kWatched =>
    watchedEntries(kSized, { number: 1, entries: points.map(stats) as never });
  expect(entryOfSizes(kWatched, 'layer')?.name).toBe('MLP1 · stats');
  expect(entryOfSizes(kWatched.slice(1), 'layer')).toBeNull();
  const all = watch('MLP1', 'Logits', 'FinalNorm', 'HiddenStates', 'Embedding');
  expect(entryOfSizes(all, 'embedding')?.facts.name).toBe('Embedding');
  expect(entryOfSizes(all, 'layer')?.facts.name).toBe('HiddenStates');
  expect(entryOfSizes(all, 'head')?.facts.name).toBe('FinalNorm');
  const missing = (of: typeof kWatched): string[] =>
    unmeasured(kSized.points, of).map(({ name }) => name);
  expect(missing(all)).toEqual([]);
  expect(missing(watch('MLP1', 'Logits'))).toEqual(['Embedding', 'HiddenStates']);
  expect(missing(kWatched)).toEqual(['Embedding', 'HiddenStates', 'FinalNorm']);
});
