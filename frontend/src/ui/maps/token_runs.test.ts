import { expect, test } from 'vitest';
import { textRuns } from './token_runs';

const kTexts = Array.from('the␣quick␣brown␣fox');

test('wide cells show each token below its cell', () => {
  const { each, runs } = textRuns(kTexts, 8, 6, 8);
  expect(each).toBe(true);
  expect(runs.map(({ text }) => text)).toEqual(kTexts);
});

test('narrow cells show the text from every tick on, as far as it fits', () => {
  const { each, runs } = textRuns(kTexts, 5, 6, 8);
  expect(each).toBe(false);
  expect(runs).toEqual([
    { at: 0, text: 'the …' },
    { at: 8, text: 'k br…' },
    { at: 16, text: 'fox' },
  ]);
});

test('a long token makes all tokens share the room', () => {
  expect(textRuns(['a', '#4711', 'b'], 20, 6, 4)).toEqual({
    each: false,
    runs: [{ at: 0, text: 'a#4711b' }],
  });
});
