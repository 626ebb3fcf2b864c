import { expect, test } from 'vitest';
import { caretLines, caretText, cutAt, expressionErrorOf } from './expression_error';

// A message as the trainer writes it, see docs/expressions.md.
const kMessage =
  'there is no "maen", did you mean "mean"? (line 1, column 6)\n  data.maen(dim=-1)\n       ^~~~';

test('the message, its place and the length of what it is about', () => {
  expect(expressionErrorOf(kMessage, 'plan.entries[0].compressor.method')).toEqual({
    message: 'there is no "maen", did you mean "mean"?',
    caret: { line: 1, column: 6, length: 4 },
  });
});

test('the place may stand in `where` alone', () => {
  const where = 'plan.entries[0].compressor.method, line 2, column 3';
  expect(expressionErrorOf('no such name', where)).toEqual({
    message: 'no such name',
    caret: { line: 2, column: 3, length: 1 },
  });
});

test('an error without a place has no caret', () => {
  expect(expressionErrorOf('costs too much', 'plan.entries[0].compressor.method').caret).toBeNull();
  expect(expressionErrorOf('x (line 0, column 0)', '').caret).toBeNull();
});

test('the caret stands below its character, in its line', () => {
  const caret = { line: 1, column: 6, length: 4 };
  expect(caretText('data.maen(dim=-1)', caret)).toBe('     ^~~~');
  expect(caretText('(data\n.maen())', { line: 2, column: 2, length: 4 })).toBe('.maen())\n ^~~~');
  expect(caretText('', { line: 1, column: 1, length: 1 })).toBe('^');
});

test('a text is cut where the caret points, by characters and not by their halves', () => {
  const source = 'a = 1\n  😀 = b(2)\n';
  expect(cutAt(source, { line: 2, column: 7, length: 2 })).toEqual(['a = 1\n  😀 = ', 'b(']);
  expect(cutAt(source, { line: 9, column: 1, length: 1 })[1]).toBe('');
  expect(caretLines('maen(1)', { line: 1, column: 1, length: 4 })).toBe('maen(1)\n^~~~');
});
