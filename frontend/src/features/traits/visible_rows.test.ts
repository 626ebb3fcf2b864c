import { expect, test } from 'vitest';
import { scrollTo, visibleRows } from './visible_rows';

test('only the rows on the screen and some around them', () => {
  const view = { height: 240, row: 24, top: 0 };
  expect(visibleRows(100_000, view)).toEqual({ first: 0, end: 18, before: 0, after: 2_399_568 });
  const middle = visibleRows(100_000, { ...view, top: 24_000 });
  expect(middle).toEqual({ first: 992, end: 1018, before: 23_808, after: 2_375_568 });
  const last = visibleRows(100_000, { ...view, top: 2_399_760 });
  expect([last.first, last.end, last.after]).toEqual([99_982, 100_000, 0]);
});

test('a short list, an empty list, and a list that has become shorter', () => {
  const view = { height: 240, row: 24, top: 0 };
  expect(visibleRows(3, view)).toEqual({ first: 0, end: 3, before: 0, after: 0 });
  expect(visibleRows(0, view)).toEqual({ first: 0, end: 0, before: 0, after: 0 });
  const beyond = visibleRows(3, { ...view, top: 5000 });
  expect([beyond.first, beyond.end]).toEqual([0, 3]);
});

test('the scroll position at which a row is visible', () => {
  const view = { height: 240, row: 24, top: 240 };
  expect(scrollTo(12, view)).toBe(240);
  expect(scrollTo(3, view)).toBe(72);
  expect(scrollTo(25, view)).toBe(384);
});
