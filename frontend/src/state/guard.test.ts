import { expect, test } from 'vitest';
import { formatGuard, type Guard, parseGuard } from './guard';

const kGuard: Guard = {
  entry: 'HiddenStates · probes · projection #2',
  layer: 12,
  row: 3,
  vector: 1,
  over: 'mean',
  phase: 'eval',
};

test('what was written is read', () => {
  expect(formatGuard(kGuard)).toBe('12.3.1.mean.eval.HiddenStates · probes · projection #2');
  expect(parseGuard(formatGuard(kGuard))).toEqual(kGuard);
});

test('anything else is no guard', () => {
  for (const text of ['', '1.2.3.last.train.', '1.2.last.train.x', '-1.0.0.last.train.x', 'x']) {
    expect(parseGuard(text)).toBeUndefined();
  }
});
