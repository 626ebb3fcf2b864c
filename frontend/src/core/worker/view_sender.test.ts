import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { kTestQuery } from '../store/test_query';
import type { View } from '../store/frames';
import { ViewSender } from './view_sender';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const kEmpty: View = {
  empty: { query: kTestQuery, reason: 'none', steps: [], dtype: 0, compressor: 0, shape: [] },
};

function senderOf(delayMs?: number): { sender: ViewSender; sent: number[] } {
  const sent: number[] = [];
  const begin = Date.now();
  const sender = new ViewSender(
    () => kEmpty,
    () => sent.push(Date.now() - begin),
    delayMs,
  );
  sender.ask(kTestQuery);
  return { sender, sent };
}

test('the next view waits until the last is drawn, and then no longer', () => {
  const { sender, sent } = senderOf();
  vi.advanceTimersByTime(20);
  sender.changed();
  vi.advanceTimersByTime(20);
  expect(sent).toEqual([8]);
  sender.drawn();
  expect(sent).toEqual([8, 40]);
});

test('what is drawn at once is still not sent more often than it may', () => {
  const { sender, sent } = senderOf(100);
  for (let time = 0; time < 350; time += 5) {
    vi.advanceTimersByTime(5);
    sender.changed();
    sender.drawn();
  }
  expect(sent).toEqual([100, 200, 300]);
});

test('a view whose code is on its way is sent when it is here', () => {
  let isHere = false;
  const sent: View[] = [];
  const sender = new ViewSender(
    () => (isHere ? kEmpty : undefined),
    (view) => sent.push(view),
  );
  sender.ask(kTestQuery);
  vi.advanceTimersByTime(20);
  expect(sent).toEqual([]);
  isHere = true;
  sender.changed();
  vi.advanceTimersByTime(20);
  expect(sent).toEqual([kEmpty]);
});
