import { expect, test } from 'vitest';
import { cropped } from './crop';
import { statsOf } from '../../core/store/map_data';

const present = Uint8Array.of(1, 0, 1);
const values = Float32Array.of(0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23);
const map = { rows: 3, cols: 4, values, present, stats: statsOf(values, present, 4) };

test('the shown part keeps its numbers, what is missing, and the statistics of all', () => {
  const absent = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0);
  const part = cropped({ ...map, absent }, [1, 3], [1, 3]);
  expect([part.rows, part.cols]).toEqual([2, 2]);
  expect([...part.values]).toEqual([11, 12, 21, 22]);
  expect([...part.present]).toEqual([0, 1]);
  expect([...(part.absent ?? [])]).toEqual([0, 0, 0, 1]);
  expect(part.stats).toBe(map.stats);
});

test('the whole map is itself: nothing is copied', () => {
  expect(cropped(map, [0, 3], [0, 4])).toBe(map);
});
