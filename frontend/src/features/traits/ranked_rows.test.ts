import { expect, test } from 'vitest';
import type { RankedText } from './ranked_file';
import { histogramOf, matchesOf, ordered } from './ranked_rows';

function textOf(score: number | null, rank: number | null, text: string, prompt = ''): RankedText {
  return { line: 0, score, rank, own: null, base: null, prompt, text };
}

const kTexts: readonly RankedText[] = [
  textOf(0.5, 2, 'unto the hills'),
  textOf(null, null, 'nothing'),
  textOf(3, 1, 'Thou ART', 'Who?'),
  textOf(-1, 4, 'a (b) c'),
  textOf(0.5, 3, 'Abc'),
].map((each, at) => ({ ...each, line: at + 1 }));
const kAll = [0, 1, 2, 3, 4];

test('texts are sorted by a column; those without a score come last', () => {
  expect(ordered(kTexts, kAll, 'rank', 'up')).toEqual([2, 0, 4, 3, 1]);
  expect(ordered(kTexts, kAll, 'rank', 'down')).toEqual([3, 4, 0, 2, 1]);
  // Texts with equal scores stay in the order of the file.
  expect(ordered(kTexts, kAll, 'score', 'down')).toEqual([2, 0, 4, 3, 1]);
  expect(ordered(kTexts, kAll, 'score', 'up')).toEqual([3, 0, 4, 2, 1]);
  expect(ordered(kTexts, [4, 1, 0], 'line', 'up')).toEqual([0, 1, 4]);
  expect(ordered(kTexts, kAll, 'text', 'up')).toEqual([4, 2, 3, 1, 0]);
});

test('the filter looks in prompt and text, in capital and small letters, for the typed signs', async () => {
  expect(await matchesOf(kTexts, '')).toEqual(kAll);
  expect(await matchesOf(kTexts, ' thou art ')).toEqual([2]);
  expect(await matchesOf(kTexts, 'WHO')).toEqual([2]);
  expect(await matchesOf(kTexts, '(b)')).toEqual([3]);
  expect(await matchesOf(kTexts, '.')).toEqual([]);
  expect(await matchesOf(kTexts, 'th', () => false)).toBeNull();
});

test('the histogram has equal bins between the smallest and the largest score', () => {
  const { bins, range, scored } = histogramOf(kTexts, kAll);
  expect([range, scored]).toEqual([[-1, 3], 4]);
  expect(bins).toHaveLength(20);
  // A bin has 0.2: 0.5 is in the eighth; the last one holds both of its edges.
  expect([bins[0], bins[7], bins[19]]).toEqual([1, 2, 1]);
  const equal = histogramOf(kTexts, [0, 4]);
  expect([equal.range, equal.bins[0]]).toEqual([[0.5, 0.5], 2]);
  expect(histogramOf(kTexts, [1])).toMatchObject({ scored: 0, range: [0, 0] });
});
