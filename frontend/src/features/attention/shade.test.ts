import { expect, test } from 'vitest';
import { shaded, shadeName } from './shade';
import { statsOf } from '../../core/store/map_data';

const present = Uint8Array.of(1, 1, 1);
const values = Float32Array.of(0.01, 0.04, 0, 0.25, 0, 0);
const map = { rows: 3, cols: 2, values, present, stats: statsOf(values, present, 2) };

test('each row is told in shares of its largest; an empty row stays empty', () => {
  const { values: shares, stats } = shaded(map, 'row');
  expect([...shares]).toEqual([0.25, 1, 0, 1, 0, 0]);
  expect(stats.max).toBe(1);
});

test('square roots keep the sign, and NaN stays NaN', () => {
  const roots = shaded(
    { ...map, values: Float32Array.of(0.25, -0.25, NaN, 1, 0, 4) },
    'sqrt',
  ).values;
  expect([...roots]).toEqual([0.5, -0.5, NaN, 1, 0, 2]);
});

test('an infinity does not hide the other numbers of its row', () => {
  const of = { ...map, values: Float32Array.of(Infinity, 0.5, NaN, 2, 0, 0) };
  expect([...shaded(of, 'row').values]).toEqual([Infinity, 1, NaN, 1, 0, 0]);
});

test('as it is, the map is itself', () => {
  expect(shaded(map, 'linear')).toBe(map);
  expect(shadeName('p', 'row')).toBe("p ÷ the row's largest");
});
