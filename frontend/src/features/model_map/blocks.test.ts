import { expect, test } from 'vitest';
import { watchedEntries } from '../../core/session/watched';
import type { Program } from '../../protocol/interventions';
import type { PointFacts, RunFacts } from '../../protocol/messages';
import { blocksOf, entryOfSizes, entryToShow, type ModelFacts, partOf } from './blocks';

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
  sizes: { text: 'norm', byLayer: new Map([[1, 4]]) },
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
  expect(blocks.map(({ size }) => size)).toEqual([undefined, 4, undefined, undefined, undefined]);
});

test('a size that is not finite is an alarm', () => {
  const sizes = { text: 'norm', byLayer: new Map([[2, Number.NaN]]) };
  const blocks = blocksOf({ ...kFacts, alarms: [], sizes });
  expect(blocks.map(({ alarms }) => alarms)).toEqual([[], [], ['norm is not finite'], [], []]);
});

test('a click keeps the point that is shown, where the box has it', () => {
  const [embedding, first, second] = blocksOf(kFacts);
  expect(entryToShow(second, kWatched[1])?.name).toBe('HiddenStates');
  expect(entryToShow(second, null)?.name).toBe('MLP1 · stats');
  expect(entryToShow(first, kWatched[0])?.name).toBe('HiddenStates');
  expect(entryToShow(embedding, null)).toBeUndefined();
});

test('sizes are of statistics, best of those of the outputs', () => {
  expect(entryOfSizes(kWatched)?.name).toBe('MLP1 · stats');
  expect(entryOfSizes(kWatched.slice(1))?.name).toBe('HiddenStates');
  expect(entryOfSizes(kWatched.slice(2))).toBeNull();
});
