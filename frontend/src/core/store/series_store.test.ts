import { describe, expect, test } from 'vitest';
import {
  debiasedEma,
  kMaxSteps,
  keepsStep,
  SeriesStore,
  strideFor,
  toColumns,
} from './series_store';

const stepsOf = (store: SeriesStore): number[] => store.all.map(({ step }) => step);

describe('SeriesStore', () => {
  test('a history sent again makes no duplicates', () => {
    const store = new SeriesStore();
    for (let step = 1; step <= 5; step++) store.add({ step, loss: step });
    store.restart();
    for (let step = 3; step <= 7; step++) store.add({ step, loss: step });
    expect(stepsOf(store)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  test('a resumed run forgets the end that it lost', () => {
    const store = new SeriesStore();
    for (let step = 1; step <= 9; step++) store.add({ step, loss: 1 });
    store.restart();
    store.add({ step: 5, loss: 2 });
    expect(stepsOf(store)).toEqual([1, 2, 3, 4, 5]);
    expect(store.last?.loss).toBe(2);
  });

  test('a second message about a step adds to it; a late one finds its place', () => {
    const store = new SeriesStore();
    store.add({ step: 1, loss: 3 });
    store.add({ step: 3, loss: 1 });
    store.add({ step: 2, loss: 2 });
    store.add({ step: 3, valid_loss: 4 });
    expect(stepsOf(store)).toEqual([1, 2, 3]);
    expect(store.last).toEqual({ step: 3, loss: 1, valid_loss: 4 });
  });

  test('the past comes before what arrived, which counts more', () => {
    const store = new SeriesStore();
    for (let step = 5; step <= 7; step++) store.add({ step, loss: step });
    store.merge(
      [1, 2, 3, 4, 5, 9].map((step) => ({ step, loss: 0 })),
      1,
    );
    // Step 9 was lost when the run was resumed.
    expect(stepsOf(store)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(store.all[4].loss).toBe(5);
    store.merge([{ step: 9 }], 1, true);
    expect(store.last?.step).toBe(9);
    expect(store.upTo(3).map(({ step }) => step)).toEqual([1, 2, 3]);
  });

  test('very many steps are thinned out, evaluations stay, and no gap is made', () => {
    expect([100, 100_000, 100_001, 1_000_000].map((steps) => strideFor(steps))).toEqual([
      ...[1, 1, 2, 16],
    ]);
    expect(keepsStep({ step: 3 }, 2)).toBe(false);
    expect(keepsStep({ step: 3, valid_loss: 1 }, 2)).toBe(true);
    const store = new SeriesStore();
    for (let step = 1; step <= 2 * kMaxSteps + 1; step++) {
      store.add(step === 7 ? { step, valid_loss: 1 } : { step });
    }
    expect(store.all.length).toBe(kMaxSteps + 2);
    expect(stepsOf(store).slice(0, 5)).toEqual([2, 4, 6, 7, 8]);
    expect(store.last?.step).toBe(2 * kMaxSteps + 1);
    expect(toColumns(store.all, store.stride).steps).toHaveLength(store.all.length);
    expect(toColumns([{ step: 2 }, { step: 6 }], 2).steps).toEqual([2, 3, 6]);
  });

  test('missing steps become a gap, and numbers that are not finite too', () => {
    const columns = toColumns([
      { step: 1, loss: 3 },
      { step: 2, loss: Number.NaN },
      { step: 6, loss: 1 },
    ] as never);
    expect(columns.steps).toEqual([1, 2, 3, 6]);
    expect(columns.loss).toEqual([3, null, null, 1]);
  });
});

describe('debiasedEma', () => {
  test('the first value is itself and a constant stays constant', () => {
    expect(debiasedEma([5, 5, 5], 0.9).map((value) => value?.toFixed(9))).toEqual(
      Array(3).fill('5.000000000'),
    );
  });

  test('agrees with the weighted mean written out', () => {
    const [, , third] = debiasedEma([1, 2, 4], 0.5);
    expect(third).toBeCloseTo((1 * 0.25 + 2 * 0.5 + 4 * 1) / 1.75, 12);
  });

  test('gaps stay gaps and pull nothing', () => {
    const smoothed = debiasedEma([2, null, 2], 0.8);
    expect(smoothed[1]).toBeNull();
    expect(smoothed[2]).toBeCloseTo(2, 12);
  });

  test('factor 0 changes nothing', () => {
    expect(debiasedEma([1, 7], 0)).toEqual([1, 7]);
  });
});
