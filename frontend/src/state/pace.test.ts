import { expect, test } from 'vitest';
import { stepsPerSecond } from './pace';

test('the pace is that of the last steps which tell their time', () => {
  const facts = [
    ...Array.from({ length: 30 }, (_, i) => ({ step: i + 1, step_ms: 9999 })),
    ...Array.from({ length: 18 }, (_, i) => ({ step: 31 + i, step_ms: 400 })),
    { step: 49, step_ms: null },
    { step: 50, step_ms: 100 },
  ];
  expect(stepsPerSecond(facts)).toBeCloseTo(19 / (18 * 0.4 + 0.1), 10);
  expect(stepsPerSecond([])).toBeNull();
  expect(stepsPerSecond([{ step: 1 }])).toBeNull();
});
