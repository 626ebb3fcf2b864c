import { expect, test } from 'vitest';
import { fuzzyFilter, fuzzyScore } from './fuzzy';

const kTexts = ['Layer 1', 'Layer 12', 'Layer 2', 'Step 12', 'Go to Overview', 'Player 12x'];

function found(query: string): readonly string[] {
  return fuzzyFilter(query, kTexts, (text) => text);
}

test('a whole word counts more than its beginning, and that more than its middle', () => {
  expect(found('layer 1')).toEqual(['Layer 1', 'Layer 12', 'Player 12x']);
  expect(found('layer 12')).toEqual(['Layer 12', 'Player 12x']);
  expect(found('12')[0]).toBe('Layer 12');
});

test('letters in their order are found, others are not', () => {
  expect(found('gov')).toEqual(['Go to Overview']);
  expect(found('vog')).toEqual([]);
  expect(found('')).toEqual(kTexts);
  expect(fuzzyScore('zz', 'Layer')).toBeUndefined();
});
