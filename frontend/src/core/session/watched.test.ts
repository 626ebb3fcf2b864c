import { describe, expect, test } from 'vitest';
import type { Plan, RunFacts } from '../../protocol/messages';
import { closest, layerName, watchedEntries } from './watched';

const kPoint = { dims: [], first_layer: 1, last_layer: 4, features: 256, text: '' };
const kOutside = { ...kPoint, first_layer: 0, last_layer: 0 };
const kRun = {
  points: [
    { ...kPoint, name: 'HiddenStates', flag: 7 },
    { ...kOutside, name: 'Logits', flag: 23, compressor: 'topk' },
    { ...kOutside, name: 'InputTokens', flag: 8, features: 0 },
  ],
  prompt_sets: [
    { name: 'others', interval: 1, prompts: [], tokens: [] },
    {
      name: 'probes',
      interval: 50,
      prompts: ['abc', 'Ü'],
      tokens: [
        [97, 98, 99],
        [7, 8],
      ],
    },
  ],
  vectors: ['evil'],
} as unknown as RunFacts;

function watched(...entries: object[]): ReturnType<typeof watchedEntries> {
  return watchedEntries(kRun, { number: 1, entries } as unknown as Plan);
}

const kHidden = { point: 'HiddenStates' };
const kProbes = { ...kHidden, prompts: 'probes', every: 4 };

describe('watchedEntries', () => {
  test('each entry has a name that tells it from the others', () => {
    const names = watched(
      { point: 'InputTokens' },
      kHidden,
      { ...kHidden, direction: 'gradient' },
      { ...kProbes, compressor: { kind: 'projection', vectors: ['evil'] } },
      { ...kHidden, compressor: { kind: 'stats' } },
      { ...kHidden, layers: '2' },
      { point: 'Logits' },
      { point: 'Gone' },
    ).map(({ name, entry }) => `${entry} ${name}`);
    expect(names).toEqual([
      '1 HiddenStates',
      '2 HiddenStates · gradient',
      '3 HiddenStates · probes · projection',
      '4 HiddenStates · stats',
      '5 HiddenStates #2',
      '6 Logits',
    ]);
  });

  test('what it asks of the store: direction, prompt set, form, window', () => {
    const [gradient, probes, logits] = watched(
      { ...kHidden, direction: 'gradient', tokens: [8, 16] },
      kProbes,
      { point: 'Logits' },
    );
    expect(gradient).toMatchObject({ direction: 1, promptSet: 0, form: 'values', firstToken: 8 });
    expect(probes).toMatchObject({ direction: 0, promptSet: 2, firstToken: 0, phases: [] });
    expect(logits).toMatchObject({ form: 'topk', layers: [0], phases: ['train'] });
    expect(watched({ ...kHidden, compressor: { kind: 'novel' } })[0].form).toBe('other');
  });

  test('prompts come every so many steps as both their intervals allow', () => {
    expect(watched(kProbes)[0].every).toBe(100);
  });

  test('layers are those of the point that the entry names', () => {
    expect(watched({ ...kHidden, layers: '2-3,9' })[0].layers).toEqual([2, 3]);
    expect(watched(kHidden)[0].layers).toEqual([1, 2, 3, 4]);
  });
});

test('the lengths of prompts are those of their tokens', () => {
  const [probes, plain] = watched(kProbes, kHidden);
  expect(probes.lengths).toEqual([3, 2]);
  expect(plain.lengths).toEqual([]);
  const withoutTokens = kRun.prompt_sets.map((set) => ({ ...set, tokens: undefined }));
  const ofBytes = { ...kRun, prompt_sets: withoutTokens };
  const plan = { number: 1, entries: [kProbes] } as unknown as Plan;
  expect(watchedEntries(ofBytes, plan)[0].lengths).toEqual([3, 2]);
});

test('points outside the layers go by their own name', () => {
  expect(layerName(0, 'Embedding')).toBe('Embedding');
  expect(layerName(3, 'MLP1')).toBe('L3');
  expect(layerName(3, 'MLP1', 'Layer ')).toBe('Layer 3');
});

test('the closest choice', () => {
  expect(closest([2, 5], 4)).toBe(5);
  expect(closest([], 4)).toBe(4);
});

test('outliers have the form of topk', () => {
  expect(watched({ ...kHidden, compressor: { kind: 'outliers', k: 3 } })[0].form).toBe('topk');
});
