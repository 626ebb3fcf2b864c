import { expect, test } from 'vitest';
import { replayOf, speedChoices } from './replay';

test('only a replay is one', () => {
  expect(replayOf(null)).toBeNull();
  expect(replayOf({ phase: 'paused', step: 3 })).toBeNull();
  const state = { phase: 'replay', step: 12, paused: true, speed: 2 } as const;
  expect(replayOf({ ...state, first_step: 1, last_step: 300 })).toEqual({
    ...{ step: 12, paused: true, speed: 2 },
    ...{ first: 1, last: 300 },
  });
});

test('a speed that was set elsewhere can be shown', () => {
  expect(speedChoices(3)).toEqual([0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 25, 100]);
  expect(speedChoices(2)).not.toContain(3);
});
