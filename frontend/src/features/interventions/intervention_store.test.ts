import { beforeEach, expect, test } from 'vitest';
import { programSchema, savedSchema } from '../../protocol/interventions';
import type { AppliedProgram, Program, SavedFacts } from '../../protocol/interventions';
import { InterventionStore, kMaxPoints, kMaxSeries } from './intervention_store';

const kIdle = { identity: 0, waiting: 0, failed: 0, ranks: 2, of_ranks: 2 };

function program(name: string, since: number): Program {
  const parameters = [{ name: 'alpha', value: 4 }];
  return programSchema({ name, since, parameters }, '');
}

function did(name: string, forwards: number, positions: number): AppliedProgram {
  return { ...kIdle, name, forwards, positions, writes: [] };
}

function saved(step: number, values: readonly unknown[], more: object = {}): SavedFacts {
  const shape = values.length === 1 ? [] : [values.length];
  return savedSchema({ step, program: 'steer', name: 'norm', shape, values, ...more }, '');
}

let store: InterventionStore;
beforeEach(() => {
  store = new InterventionStore();
  store.inForce([program('steer', 13)]);
});

test('counters add up over the steps, from the first in which it acted', () => {
  store.applied({ step: 13, programs: [did('steer', 0, 0), did('other', 9, 9)] });
  expect(store.countersOf('steer')?.first).toBeNull();
  store.applied({ step: 14, programs: [did('steer', 4, 4096)] });
  store.applied({ step: 15, programs: [did('steer', 4, 1024)] });
  expect(store.countersOf('steer')).toMatchObject({ forwards: 8, positions: 5120 });
  expect(store.countersOf('steer')?.first).toMatchObject({ step: 14, positions: 4096, ranks: 2 });
  expect(store.countersOf('steer')?.last).toMatchObject({ step: 15, positions: 1024 });
  expect(store.countersOf('other')).toBeNull();
});

test('a program that is applied anew counts from nothing, one whose value is set does not', () => {
  store.applied({ step: 13, programs: [did('steer', 1, 7)] });
  store.inForce([program('steer', 13)]);
  expect(store.countersOf('steer')?.positions).toBe(7);
  store.took(saved(13, [1]));
  store.inForce([program('steer', 20)]);
  expect(store.countersOf('steer')).toBeNull();
  expect(store.saved).toEqual([]);
});

test('one that is gone keeps what it saved, to be looked at', () => {
  store.took(saved(13, [1]));
  store.applied({ step: 13, programs: [did('steer', 1, 7)] });
  store.inForce([]);
  expect(store.countersOf('steer')).toBeNull();
  expect(store.saved).toHaveLength(1);
  store.clear();
  expect(store.saved).toEqual([]);
});

test('a replay that moves back does not count its steps twice', () => {
  store.applied({ step: 13, programs: [did('steer', 1, 7)] });
  store.applied({ step: 14, programs: [did('steer', 1, 7)] });
  store.applied({ step: 13, programs: [did('steer', 1, 7)] });
  expect(store.countersOf('steer')?.positions).toBe(7);
});

test('counts are whole where every step since the program is in force was seen', () => {
  const wholeAfter = (...steps: readonly number[]): unknown => {
    store.clear();
    store.inForce([program('steer', 13)]);
    for (const step of steps) store.applied({ step, programs: [did('steer', 1, 7)] });
    const { whole, from } = store.countersOf('steer') ?? {};
    return [whole, from];
  };
  expect(wholeAfter(13, 14)).toEqual([true, 13]);
  expect(wholeAfter(40, 41)).toEqual([false, 40]);
  expect(wholeAfter(13, 15, 16)).toEqual([false, 13]);
});

test('an acknowledged value is in force at once', () => {
  store.acknowledge('steer', 'alpha', 2.5);
  store.acknowledge('steer', 'beta', 9);
  expect(store.programs[0].parameters).toEqual([{ name: 'alpha', value: 2.5 }]);
});

test('of what was saved the last is kept with its range; NaN is counted', () => {
  store.took(saved(13, [3, 'NaN', -2, 'Infinity', 1, 2, 3, 4, 5, 6]));
  expect(store.saved[0]).toMatchObject({ count: 10, least: -2, largest: 6, bad: 2, steps: [] });
  expect(store.saved[0].head).toEqual([3, Number.NaN, -2, Number.POSITIVE_INFINITY, 1, 2, 3, 4]);
  store.took(saved(14, ['NaN']));
  expect(store.saved[0].least).toBeNaN();
});

test('single numbers are a line over the steps, one for each step', () => {
  store.took(saved(13, [1]));
  store.took(saved(14, [2]));
  store.took(saved(14, [3], { micro_batch: 1 }));
  expect(store.saved[0]).toMatchObject({ steps: [13, 14], values: [1, 3] });
  store.took(saved(13, [9]));
  expect(store.saved[0]).toMatchObject({ steps: [13], values: [9] });
  for (let step = 14; step < 14 + kMaxPoints; step++) store.took(saved(step, [step]));
  expect(store.saved[0].steps).toHaveLength(kMaxPoints);
  expect(store.saved[0].values.at(-1)).toBe(13 + kMaxPoints);
});

test('layers, phases and prompt sets are told apart, up to so many', () => {
  const about = [{ layer: 1 }, { layer: 2 }, { phase: 'eval' }, { prompt_set: 1 }];
  for (const more of about) store.took(saved(13, [1], more));
  expect(store.saved).toHaveLength(4);
  for (let layer = 0; layer < 2 * kMaxSeries; layer++) store.took(saved(13, [1], { layer }));
  expect([store.saved.length, store.isFull]).toEqual([kMaxSeries, true]);
});

test('series of a program that is gone make room for others', () => {
  for (let layer = 0; layer < kMaxSeries; layer++) store.took(saved(13, [1], { layer }));
  store.inForce([program('other', 14)]);
  store.took(saved(14, [2], { program: 'other' }));
  expect([store.saved.length, store.isFull]).toEqual([kMaxSeries, false]);
  expect(store.saved.at(-1)?.last.program).toBe('other');
});
