import { expect, test } from 'vitest';
import { columnMarks } from './column_marks';

const mark = (step: number): Parameters<typeof columnMarks>[0][number] => ({
  step,
  color: 'red',
  text: `at ${step}`,
});

test('a mark stands at its step, or at the next column where its step has none', () => {
  const marks = columnMarks([mark(10), mark(14), mark(30)], [10, 20, 30]);
  expect(marks.map(({ step, col }) => [step, col])).toEqual([
    [10, 0],
    [14, 1],
    [30, 2],
  ]);
});

test('what happened before the first or after the last column is not marked', () => {
  expect(columnMarks([mark(9), mark(31)], [10, 20, 30])).toEqual([]);
  expect(columnMarks([mark(9)], [])).toEqual([]);
});
