import { expect, test } from 'vitest';
import { scalarArrays } from './scalar_arrays';

test('scalars are as they were told: no row is added, Inf stays', () => {
  const units = { loss: 'nats/byte', valid_loss: '', grad_norm: '', lr: '', tokens_per_second: '' };
  const facts = [
    { step: 1, loss: 2.5, grad_norm: Infinity },
    { step: 9, loss: null, grad_norm: -Infinity },
  ];
  const [loss, , norm] = scalarArrays(facts, units);
  expect([loss.name, loss.text, loss.axes[0].labels]).toEqual([
    'loss',
    'nats/byte, by step',
    [1, 9],
  ]);
  expect([[...loss.data], [...norm.data]]).toEqual([
    [2.5, Number.NaN],
    [Infinity, -Infinity],
  ]);
  expect(scalarArrays([], units)).toEqual([]);
});
