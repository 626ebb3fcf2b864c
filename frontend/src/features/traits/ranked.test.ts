import { expect, test } from 'vitest';
import { Ranked } from './ranked.svelte';

function fileOf(name: string, ...lines: readonly object[]): File {
  return new File([lines.map((line) => JSON.stringify(line)).join('\n')], name);
}

const kFirst = fileOf(
  'first.jsonl',
  { text: 'low', projection: 1, rank: 2 },
  { text: 'high', projection: 2, rank: 1 },
  { text: 'none', projection: null, rank: null },
);

test('an opened file is sorted by rank, and by other columns', async () => {
  const ranked = new Ranked();
  await ranked.open(kFirst);
  expect([ranked.file?.name, ranked.reading, ranked.error]).toEqual(['first.jsonl', null, '']);
  expect(ranked.rows).toEqual([1, 0, 2]);
  ranked.sort('rank');
  expect([ranked.order, ranked.rows]).toEqual(['down', [0, 1, 2]]);
  // The largest score stands first, the first line too.
  ranked.sort('score');
  expect([ranked.order, ranked.rows]).toEqual(['down', [1, 0, 2]]);
  ranked.sort('line');
  expect([ranked.order, ranked.rows]).toEqual(['up', [0, 1, 2]]);
});

test('the filter keeps the order, and the chosen text if it is still there', async () => {
  const ranked = new Ranked();
  await ranked.open(kFirst);
  ranked.chosen = 0;
  await ranked.filter('o');
  expect([ranked.rows, ranked.chosen]).toEqual([[0, 2], 0]);
  await ranked.filter('high');
  expect([ranked.rows, ranked.chosen]).toEqual([[1], null]);
  await ranked.filter('');
  expect(ranked.rows).toEqual([1, 0, 2]);
});

test('only the last typed words count, and only the last opened file', async () => {
  const ranked = new Ranked();
  await ranked.open(kFirst);
  await Promise.all([ranked.filter('low'), ranked.filter('none')]);
  expect(ranked.rows).toEqual([2]);
  const second = fileOf('second.jsonl', { text: 'b', projection_difference: 1, rank: 1 });
  await Promise.all([ranked.open(kFirst), ranked.open(second)]);
  expect([ranked.file?.name, ranked.words, ranked.rows]).toEqual(['second.jsonl', '', [0]]);
});

test('a wrong file says why, and a file that is gone too', async () => {
  const ranked = new Ranked();
  await ranked.open(fileOf('other.jsonl', { text: 'a' }));
  expect(ranked.error).toMatch(/^line 1 of "other.jsonl" has no "projection"/);
  expect([ranked.file, ranked.reading]).toEqual([null, null]);
  const gone = new File([], 'gone.jsonl');
  gone.stream = () => {
    throw new DOMException('it was moved', 'NotFoundError');
  };
  await ranked.open(gone);
  expect(ranked.error).toBe('"gone.jsonl" cannot be read: it was moved. Open it again.');
});
