import { expect, test } from 'vitest';
import type { Notification, RunFacts, RunState } from '../../protocol/messages';
import { Watching } from './watching';

const kRun = { id: 'a' } as RunFacts;
const kWaits = { id: 'a', configuration: { 'tensor-tracer-wait': 'true' } } as unknown as RunFacts;
const state = (phase: RunState['phase']): RunState => ({ phase, step: 0 });
const told = (phase: RunState['phase']): Notification => ({ event: 'state', params: state(phase) });

function stage(): { watching: Watching; asked: () => number } {
  let count = 0;
  const watching = new Watching(() => (count += 1));
  return { watching, asked: () => count };
}

test('a run that trains is watched at once, and once in a connection', () => {
  const { watching, asked } = stage();
  watching.begin(kRun, state('training'));
  watching.note(told('paused'));
  expect(asked()).toBe(1);
  watching.begin(kRun, state('paused'));
  expect(asked()).toBe(2);
});

test('a run that starts is watched from its first step, unless it will wait', () => {
  const { watching, asked } = stage();
  watching.begin(null, state('starting'));
  expect(asked()).toBe(0);
  watching.note({ event: 'run', params: kRun });
  expect(asked()).toBe(1);
});

test('a run that waits is watched when it trains', () => {
  const { watching, asked } = stage();
  watching.begin(kWaits, state('starting'));
  watching.note(told('waiting'));
  watching.note({ event: 'run', params: kWaits });
  expect(asked()).toBe(0);
  watching.note(told('training'));
  watching.note(told('evaluating'));
  expect(asked()).toBe(1);
});
