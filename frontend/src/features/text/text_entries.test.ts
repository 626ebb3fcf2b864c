import { expect, test } from 'vitest';
import type { Plan, RunFacts } from '../../protocol/messages';
import { watchedEntries } from '../../core/session/watched';
import { textEntries } from './text_entries';

const kPoint = { dims: [], first_layer: 1, last_layer: 4, features: 256, text: '' };
const kRun = {
  points: [
    { ...kPoint, name: 'HiddenStates', flag: 7 },
    { ...kPoint, name: 'Logits', flag: 23, compressor: 'topk', first_layer: 0, last_layer: 0 },
  ],
  prompt_sets: [],
} as unknown as RunFacts;
const kHidden = { point: 'HiddenStates' };

function watched(...entries: object[]): ReturnType<typeof watchedEntries> {
  return watchedEntries(kRun, { number: 1, entries } as unknown as Plan);
}

test('a text is shown with its predictions, or with what is taken token by token', () => {
  const namesOf = (...entries: object[]): string[] =>
    textEntries(watched(...entries)).map(({ name }) => name);
  const stats = { ...kHidden, compressor: { kind: 'stats' } };
  expect(namesOf(stats, kHidden)).toEqual(['HiddenStates']);
  expect(namesOf(stats, kHidden, { point: 'Logits' })).toEqual(['Logits']);
  expect(namesOf(stats)).toEqual(['HiddenStates · stats']);
  const outliers = { point: 'Logits', compressor: { kind: 'outliers', k: 3 } };
  expect(namesOf(outliers, { point: 'Logits' })).toEqual(['Logits']);
});
