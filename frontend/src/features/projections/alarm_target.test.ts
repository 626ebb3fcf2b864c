import { expect, test } from 'vitest';
import { formatAlarmTarget, type AlarmTarget, parseAlarmTarget } from './alarm_target';

const kTarget: AlarmTarget = {
  entry: 'HiddenStates · probes · projection #2',
  layer: 12,
  row: 3,
  vector: 1,
  over: 'mean',
  phase: 'eval',
};

test('what was written is read', () => {
  expect(formatAlarmTarget(kTarget)).toBe('12.3.1.mean.eval.HiddenStates · probes · projection #2');
  expect(parseAlarmTarget(formatAlarmTarget(kTarget))).toEqual(kTarget);
});

test('anything else is no target', () => {
  for (const text of ['', '1.2.3.last.train.', '1.2.last.train.x', '-1.0.0.last.train.x', 'x']) {
    expect(parseAlarmTarget(text)).toBeUndefined();
  }
});
