import { expect, test } from 'vitest';
import { type CurveName, reported } from './curves';

const kAll: readonly CurveName[] = ['loss', 'grad', 'rate', 'speed'];

test('a number that no step has gets no curve', () => {
  const facts = [
    { step: 1, loss: 5, lr: 0.1 },
    { step: 2, loss: 4, lr: 0.1 },
  ];
  expect(reported(kAll, facts)).toEqual(['loss', 'rate']);
  expect(reported(kAll, [...facts, { step: 3, grad_norm: null }])).toEqual([
    'loss',
    'grad',
    'rate',
  ]);
});

test('the loss has a place, and so has everything before the first step', () => {
  expect(reported(['loss', 'grad'], [{ step: 1, step_ms: 3 }])).toEqual(['loss']);
  expect(reported(kAll, [])).toEqual(kAll);
});
