import { expect, test } from 'vitest';
import { lossesAt, lossesOf, type StepLoss, widened, withPast } from './losses';
import { toColumns } from './series_store';

test('a loss between two steps is interpolated, and there is no loss outside', () => {
  const losses: readonly StepLoss[] = [[2, 8], [4, 4], [8, 2]]; // prettier-ignore
  expect(lossesAt([1, 2, 3, 4, 5, 8, 9], losses)).toEqual([null, 8, 6, 4, 3.5, 2, null]);
  expect(lossesAt([1, 2], [])).toEqual([null, null]);
  expect(lossesAt([], losses)).toEqual([]);
});

test('steps without a finite loss are left out', () => {
  const facts = [
    { step: 1, loss: 3 },
    { step: 2 },
    { step: 3, loss: null },
    { step: 4, loss: NaN },
  ];
  expect(lossesOf(facts)).toEqual([[1, 3]]);
});

test('the axis reaches over the steps of other runs; between, the own steps stay as they are', () => {
  const columns = toColumns([{ step: 3, loss: 5 }, { step: 4, loss: 4 }]); // prettier-ignore
  const others: readonly (readonly StepLoss[])[] = [
    [[1, 9], [3, 8], [6, 7]], // prettier-ignore
    [[2, 9], [4, 8], [6, 7], [8, 6]], // prettier-ignore
  ];
  const { steps, loss, speed } = widened(columns, others);
  expect(steps).toEqual([1, 2, 3, 4, 6, 8]);
  expect(loss).toEqual([null, null, 5, 4, null, null]);
  expect(speed).toHaveLength(6);
  expect(lossesAt(steps, others[0])).toEqual([9, 8.5, 8, 8 - 1 / 3, 7, null]);
  expect(widened(columns, [])).toBe(columns);
  expect(widened(columns, [[[3, 1]]])).toBe(columns);
});

test('a run without a step yet shows the curves of the others', () => {
  expect(widened(toColumns([]), [[[1, 2], [5, 1]]]).steps).toEqual([1, 5]); // prettier-ignore
});

test('losses of earlier steps stand before the own steps, and replace none', () => {
  const columns = toColumns([{ step: 3, loss: 5, grad_norm: 1 }]);
  const past: readonly StepLoss[] = [[1, 9], [2, 7], [3, 6]]; // prettier-ignore
  const { steps, loss, gradNorm } = withPast(columns, past);
  expect([steps, loss, gradNorm]).toEqual([[1, 2, 3], [9, 7, 5], [null, null, 1]]); // prettier-ignore
  expect(withPast(columns, [])).toBe(columns);
  expect(withPast(toColumns([]), past).loss).toEqual([9, 7, 6]);
});
