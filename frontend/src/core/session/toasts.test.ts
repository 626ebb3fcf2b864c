import { expect, test } from 'vitest';
import { Toasts } from './toasts.svelte';

interface Timer {
  readonly seconds: number;
  readonly action: () => void;
}

function stage(): { toasts: Toasts; timers: Timer[]; texts: () => string[] } {
  const timers: Timer[] = [];
  const toasts = new Toasts((seconds, action) => {
    const timer = { seconds, action };
    timers.push(timer);
    return () => void timers.splice(timers.indexOf(timer), 1);
  });
  return { toasts, timers, texts: () => toasts.shown.map(({ text }) => text) };
}

const say = (key: string, text = key, seconds?: number): Parameters<Toasts['say']>[0] => ({
  ...{ key, text, tone: 'plain' },
  ...(seconds === undefined ? {} : { seconds }),
});

test('a toast goes after its seconds, or when it is dismissed', () => {
  const { toasts, timers, texts } = stage();
  toasts.say(say('pause', 'Paused', 3));
  toasts.say(say('plan', 'Plan 2'));
  expect(timers.map(({ seconds }) => seconds)).toEqual([3, 6]);
  timers[0].action();
  expect(texts()).toEqual(['Plan 2']);
  toasts.dismiss(toasts.shown[0].id);
  expect(texts()).toEqual([]);
  expect(timers).toEqual([]);
});

test('one of the same key takes the place of the one before, and only four stay', () => {
  const { toasts, timers, texts } = stage();
  for (const key of ['a', 'b', 'c', 'a', 'd', 'e']) toasts.say(say(key));
  expect(texts()).toEqual(['c', 'a', 'd', 'e']);
  expect(timers).toHaveLength(4);
});

test('while the user is at a toast none goes; then each has its time again', () => {
  const { toasts, timers, texts } = stage();
  toasts.say(say('pause', 'Paused', 3));
  toasts.hold(true);
  toasts.say(say('plan'));
  expect(timers).toEqual([]);
  toasts.hold(false);
  expect(timers.map(({ seconds }) => seconds)).toEqual([3, 6]);
  toasts.hold(true);
  for (const { id } of toasts.shown) toasts.dismiss(id);
  toasts.say(say('next'));
  expect(texts()).toEqual(['next']);
  expect(timers).toHaveLength(1);
});
