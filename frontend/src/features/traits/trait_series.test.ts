import { expect, test } from 'vitest';
import { axisOf, firstOf, lineOf, traitMap, traitsOf, valuesAt, withNorm } from './trait_series';

/** Two layers at three steps, on two vectors; layer 1 has no record at the first step. */
const kFrame = {
  layers: [1, 2],
  vectors: 2,
  overSteps: {
    steps: [10, 20, 30],
    absent: Uint8Array.of(1, 0, 0, 0, 0, 0),
    mean: Float32Array.of(0, 2, 5, 1, 2, 4, 0, 20, 50, 10, 20, 40),
    last: Float32Array.of(0, 3, 6, 2, 3, 5, 0, 30, 60, 20, 30, 50),
  },
};

test('a map of layers by steps, on one vector', () => {
  const map = traitMap(kFrame, 1, 'mean', false);
  expect([map.rows, map.cols]).toEqual([2, 3]);
  expect([...map.values]).toEqual([0, 20, 50, 10, 20, 40]);
  // The cell without a record does not count.
  expect(map.stats).toMatchObject({ min: 10, max: 50, finite: 5 });
  expect([...traitMap(kFrame, 0, 'last', false).values]).toEqual([0, 3, 6, 2, 3, 5]);
});

test('the difference is to the first step of each layer', () => {
  expect(firstOf(kFrame, 0, 0, 'mean')).toBe(2);
  expect(firstOf(kFrame, 0, 1, 'last')).toBe(2);
  const map = traitMap(kFrame, 0, 'mean', true);
  expect([lineOf(map, 0), lineOf(map, 1)]).toEqual([
    [null, 0, 3],
    [0, 1, 3],
  ]);
});

test('a layer without any record has no first number', () => {
  const overSteps = { ...kFrame.overSteps, absent: Uint8Array.of(1, 1, 1, 0, 0, 0) };
  const frame = { ...kFrame, overSteps };
  expect(firstOf(frame, 0, 0, 'mean')).toBeNull();
  expect(lineOf(traitMap(frame, 0, 'mean', true), 0)).toEqual([null, null, null]);
});

test('traits have the names of the plan, or their number', () => {
  const names = (vectors?: readonly string[]): readonly string[] =>
    traitsOf(2, vectors).map(({ name }) => name);
  expect(names(['evil', 'kind'])).toEqual(['evil', 'kind']);
  expect(names(undefined)).toEqual(['vector 0', 'vector 1']);
  const [evil, kind] = traitsOf(2, ['evil', 'kind']);
  expect([evil.index, kind.index]).toEqual([0, 1]);
  expect(evil.color).not.toBe(kind.color);
});

test('two runs share an axis: the steps of the first, and those of the second beyond them', () => {
  expect(axisOf([10, 20, 30], [5, 15, 25, 35, 40])).toEqual([5, 10, 20, 30, 35, 40]);
  expect(axisOf([10, 20], [])).toEqual([10, 20]);
  expect(axisOf([], [1, 2])).toEqual([1, 2]);
  // A step between two steps of the run gets an interpolated value; a step outside them gets no value.
  expect(valuesAt([5, 10, 15, 20, 30], [10, 20], [1, 3])).toEqual([null, 1, 2, 3, null]);
  expect(valuesAt([10, 20], [10, 20], [null, 3])).toEqual([null, 3]);
});

test('the traits at the final norm are one more row, at the steps of the layers', () => {
  const norm = {
    vectors: 2,
    overSteps: {
      steps: [20, 30, 40],
      absent: Uint8Array.of(0, 0, 0),
      mean: Float32Array.of(7, 8, 9, 70, 80, 90),
      last: Float32Array.of(1, 2, 3, 10, 20, 30),
    },
  };
  const both = withNorm(kFrame, norm);
  const map = traitMap(both, 1, 'mean', false);
  expect([map.rows, map.cols]).toEqual([3, 3]);
  expect([lineOf(map, 0), lineOf(map, 1), lineOf(map, 2)]).toEqual([
    [null, 20, 50],
    [10, 20, 40],
    [null, 70, 80],
  ]);
  expect(lineOf(traitMap(both, 0, 'last', true), 2)).toEqual([null, 0, 1]);
  // Without such records, or with those of another list of vectors, the map has the layers alone.
  expect(withNorm(kFrame, null)).toBe(kFrame);
  expect(withNorm(kFrame, { ...norm, vectors: 1 })).toBe(kFrame);
});
