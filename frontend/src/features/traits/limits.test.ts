import { expect, test } from 'vitest';
import type { AlarmRule } from '../../protocol/alarms';
import { type AlarmedLine, isOn, limitsOf, setAt } from './limits';

const kRule: AlarmRule = { name: 'drift', point: 'HiddenStates', vector: 'evil', test: 'above' };
const kCurve = { point: 'HiddenStates', vector: 'evil', over: 'mean', prompts: 'probes' };

test('an alarm is on the curve whose records and trait it names', () => {
  const on = (rule: Partial<AlarmRule>, layer = 2, curve = {}): boolean =>
    isOn({ ...kRule, prompts: 'probes', ...rule }, { ...kCurve, ...curve }, layer);
  expect(on({})).toBe(true);
  expect(on({ over: 'mean', direction: 'value', phase: 'train' })).toBe(true);
  expect(on({ layers: '1-2,8' })).toBe(true);
  expect(on({ layers: '3-8' })).toBe(false);
  expect(on({ vector: 'kind' })).toBe(false);
  expect(on({ over: 'last' })).toBe(false);
  expect(on({ over: 'last' }, 2, { over: 'last' })).toBe(true);
  expect(on({ prompts: undefined })).toBe(false);
  expect(on({ direction: 'gradient' })).toBe(false);
  expect(on({ phase: 'eval' })).toBe(false);
  expect(on({ point: undefined, scalar: 'loss' })).toBe(false);
});

test('an alarm on means is only on the curve of the same means', () => {
  const on = (ofRule?: string, ofCurve?: string): boolean =>
    isOn({ ...kRule, prompts: 'probes', mean_over: ofRule }, { ...kCurve, mean_over: ofCurve }, 2);
  expect(on('response', 'response')).toBe(true);
  expect(on('response', 'last-prompt')).toBe(false);
  expect(on('response')).toBe(false);
  expect(on(undefined, 'response')).toBe(false);
});

const kLine: AlarmedLine = {
  steps: [10, 20, 30, 40, 50],
  values: [1, 3, null, 5, 9],
  since: 0,
  isWhole: true,
  baseline: null,
};

function limits(rule: Partial<AlarmRule>, line: Partial<AlarmedLine> = {}): readonly number[] {
  return limitsOf({ ...kRule, ...rule }, { ...kLine, ...line });
}

test('the limits of a test with fixed numbers', () => {
  expect(limits({ test: 'above', value: 4 })).toEqual([4]);
  expect(limits({ test: 'below', value: -4 })).toEqual([-4]);
  expect(limits({ test: 'range', low: -1, high: 2 })).toEqual([-1, 2]);
  for (const test of ['rising', 'falling', 'nonfinite']) {
    expect(limits({ test, value: 1, window: 3 })).toEqual([]);
  }
});

test('sigma with first: k deviations from the mean of the first values', () => {
  // The mean of 1, 3 and 5 is 3, their standard deviation (n - 1) is 2.
  expect(limits({ test: 'sigma', k: 4, first: 3 })).toEqual([-5, 11]);
  expect(limits({ test: 'sigma', k: 4, first: 3, side: 'above' })).toEqual([11]);
  expect(limits({ test: 'sigma', k: 4, first: 3, side: 'below' })).toEqual([-5]);
  // The baseline begins after the step at which the alarm was set: 3, 5 and 9.
  const [low, high] = limits({ test: 'sigma', k: 1, first: 3 }, { since: 10 });
  expect((low + high) / 2).toBeCloseTo(17 / 3, 10);
});

test('a baseline that the page does not know has no limits', () => {
  expect(limits({ test: 'sigma', k: 4, window: 3 })).toEqual([]);
  expect(limits({ test: 'sigma', k: 4, first: 5 })).toEqual([]);
  // The page does not have the first values of the curve.
  expect(limits({ test: 'sigma', k: 4, first: 3 }, { isWhole: false })).toEqual([]);
  expect(limits({ test: 'sigma', k: 4, first: 3 }, { isWhole: false, since: 10 })).toHaveLength(2);
});

test('limits from the start of the run are counted from the baseline', () => {
  const start = { baseline: { mean: 1.5, deviation: 0.25 } };
  expect(limits({ baseline: true, test: 'above', value: 2.5 }, start)).toEqual([4]);
  expect(limits({ baseline: true, test: 'below', value: -2.5 }, start)).toEqual([-1]);
  expect(limits({ baseline: true, test: 'range', low: -1, high: 2 }, start)).toEqual([0.5, 3.5]);
  expect(limits({ baseline: true, test: 'above', value: 2.5 })).toEqual([]);
  expect(limits({ baseline: true, test: 'sigma', k: 2 }, start)).toEqual([1, 2]);
  expect(limits({ baseline: true, test: 'sigma', k: 2, side: 'above' }, start)).toEqual([2]);
  const ofOnePrompt = { baseline: { mean: 1.5, deviation: null } };
  expect(limits({ baseline: true, test: 'sigma', k: 2 }, ofOnePrompt)).toEqual([]);
  expect(limits({ test: 'above', value: 2.5 }, start)).toEqual([2.5]);
});

test('the step at which an alarm was set is that of its last event', () => {
  const events = [
    { step: 5, what: 'alarm/set/0/drift' },
    { step: 8, what: 'alarm/set/0/drift/2' },
    { step: 9, what: 'alarm/fired/9/drift' },
    { step: 7, what: 'alarm/set/0/drift' },
  ];
  expect(setAt(events, 'drift')).toBe(7);
  expect(setAt(events, 'other')).toBe(0);
});
