import { expect, test } from 'vitest';
import { chipOf } from './connection_chip';

const kOpen = { kind: 'open' } as const;

test('each state of the run has its word', () => {
  const word = (phase: never, lag = 0): string => chipOf(kOpen, { phase, step: 9 }, lag, 0).word;
  expect(word('training' as never)).toBe('live');
  expect(word('training' as never, 7)).toBe('lagging');
  expect(word('waiting' as never)).toBe('ready');
  expect(word('paused' as never, 7)).toBe('paused');
  expect(word('finished' as never)).toBe('ended');
  expect(word('stopped' as never)).toBe('stopped');
  expect(word('lost' as never)).toBe('lost');
});

test('a replay tells its speed, or that it is paused', () => {
  const replay = { phase: 'replay', step: 12, speed: 2.5, first_step: 1, last_step: 300 } as const;
  const text = (paused: boolean): string => chipOf(kOpen, { ...replay, paused }, 99, 0).text;
  expect(text(false)).toBe('replay, 2.5×');
  expect(text(true)).toBe('replay, paused');
});

test('a hub that leaves after the end of the run is no fault', () => {
  const waiting = { kind: 'reconnecting', at: 0, message: '' } as const;
  const chip = chipOf(waiting, { phase: 'finished', step: 300 }, 0, 0);
  expect(chip).toMatchObject({ word: 'ended', text: 'ended at step 300, hub closed' });
});

test('a wait counts down', () => {
  const waiting = { kind: 'reconnecting', at: 12_000, message: '' } as const;
  expect(chipOf(waiting, null, 0, 10_500).text).toBe('reconnecting in 1.5 s');
  expect(chipOf(waiting, null, 0, 13_000).text).toBe('reconnecting in 0.0 s');
});
