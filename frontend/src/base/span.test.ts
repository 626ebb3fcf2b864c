import { expect, test } from 'vitest';
import { cellsOf, cellsWith, movedCells, spanOf, zoomedCells } from './span';

test('a span shows its cells, or all where it lies beyond the axis', () => {
  expect(cellsOf(null, 10)).toEqual([0, 10]);
  expect(cellsOf([2, 5], 10)).toEqual([2, 5]);
  expect(cellsOf([8, 50], 10)).toEqual([8, 10]);
  expect(cellsOf([10, 20], 10)).toEqual([0, 10]);
});

test('all cells are no span', () => {
  expect(spanOf([0, 10], 10)).toBeNull();
  expect(spanOf([0, 9], 10)).toEqual([0, 9]);
});

test('a zoom keeps the place under the mouse, and stays inside', () => {
  expect(zoomedCells([0, 100], 100, 0.5, 50)).toEqual([25, 75]);
  expect(zoomedCells([0, 100], 100, 0.5, 0)).toEqual([0, 50]);
  expect(zoomedCells([25, 75], 100, 2, 50)).toEqual([0, 100]);
  expect(zoomedCells([90, 100], 100, 2, 91)).toEqual([80, 100]);
});

test('each zoom changes something until one cell is left', () => {
  expect(zoomedCells([4, 6], 10, 0.9, 5)).toEqual([5, 6]);
  expect(zoomedCells([5, 6], 10, 0.9, 5.5)).toEqual([5, 6]);
  expect(zoomedCells([5, 6], 10, 1.1, 5.5)).toEqual([5, 7]);
});

test('a move keeps the size and stays inside', () => {
  expect(movedCells([2, 5], 10, 3)).toEqual([5, 8]);
  expect(movedCells([2, 5], 10, -9)).toEqual([0, 3]);
  expect(movedCells([2, 5], 10, 99)).toEqual([7, 10]);
  expect(cellsWith([2, 5], 1)).toEqual([1, 4]);
  expect(cellsWith([2, 5], 5)).toEqual([3, 6]);
  expect(cellsWith([2, 5], 4)).toEqual([2, 5]);
});
