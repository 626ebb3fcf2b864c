import { expect, test } from 'vitest';
import { columnLabelOf, columnTextOf, tokenContext, tokenOfText, tokenText } from './token_text';

test('bytes print as themselves where they print', () => {
  expect(tokenText(65, 'byte')).toBe('A');
  expect(tokenText(32, 'byte')).toBe('␣');
  expect(tokenText(10, 'byte')).toBe('⏎');
  expect(tokenText(7, 'byte')).toBe('\\x07');
  expect(tokenText(255, 'byte')).toBe('\\xff');
  expect(tokenText(4711, 'gpt2')).toBe('#4711');
  expect(tokenText(-1, 'byte')).toBe('·');
  expect(tokenText(-1, 'gpt2')).toBe('·');
});

const kTexts = ['!', ' it', '', 'a\nb'];

test('a token has its text where the trainer tells it', () => {
  expect([0, 1, 2, 3, 4, -1].map((id) => tokenText(id, kTexts))).toEqual([
    ...['!', '␣it', '#2', 'a⏎b', '#4', '·'],
  ]);
  expect([1, 0, 2, 1].map((id) => tokenOfText(id, kTexts)).join('')).toBe(' it!#2  it');
  expect(tokenContext([0, 1, 2, 1], 1, 2, kTexts)).toEqual({
    ...{ before: '!', token: '␣it', after: ' #2\u00a0it' },
  });
  expect(tokenContext([3, 0, 3], 1, 1, kTexts)).toEqual({
    ...{ before: 'a⏎b', token: '!', after: 'a⏎b' },
  });
});

test('a token comes with its neighbours, cut at the ends', () => {
  const ids = Uint8Array.from(new TextEncoder().encode('to be'));
  expect(tokenContext(ids, 3, 2, 'byte')).toEqual({ before: 'o\u00a0', token: 'b', after: 'e' });
  expect(tokenContext(ids, 0, 9, 'byte').before).toBe('');
  expect(tokenContext(ids, -1, 2, 'byte')).toEqual({ before: '', token: '', after: 'to' });
  expect(tokenContext(ids, 1, 1, 'byte', 3)).toEqual({ before: 't', token: 'o␣b', after: 'e' });
});

test('columns are named by position; their text is known where it was captured', () => {
  const positions = Int32Array.of(8, 9);
  const label = columnLabelOf({ positions });
  expect([label(0), label(1), label(2)]).toEqual(['8', '9', '2']);
  const text = columnTextOf({ tokens: Int32Array.of(65, -1) }, 'byte');
  expect([text?.(0), text?.(1), text?.(2)]).toEqual(['A', '·', '·']);
  expect(columnTextOf({ tokens: null }, 'byte')).toBeUndefined();
});

test('in a text that is read, spaces and line breaks are what they are', () => {
  const text = [65, 32, 10, 255, -1].map((id) => tokenOfText(id, 'byte')).join('');
  expect(text).toBe('A ⏎\n\\xff·');
  expect(tokenOfText(7, 'gpt2')).toBe('#7 ');
  expect(tokenOfText(-1, 'gpt2')).toBe('·');
});
