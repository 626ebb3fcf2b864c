import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { LatestSender } from './latest_sender';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

class Stage {
  readonly sent: number[] = [];
  private readonly answers: (() => void)[] = [];
  readonly sender = new LatestSender<number>((value) => {
    this.sent.push(value);
    return new Promise((resolve) => this.answers.push(resolve));
  }, 50);

  async answer(): Promise<void> {
    this.answers.shift()?.();
    await vi.advanceTimersByTimeAsync(50);
  }
}

test('one is on its way, and of those that wait the last is sent', async () => {
  const stage = new Stage();
  for (let i = 1; i <= 50; i++) void stage.sender.push(i);
  expect(stage.sent).toEqual([1]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(stage.sent).toEqual([1]);
  await stage.answer();
  expect(stage.sent).toEqual([1, 50]);
  await stage.answer();
  expect(stage.sent).toEqual([1, 50]);
});

test('what is pushed while it rests is sent as well, once', async () => {
  const stage = new Stage();
  const done = stage.sender.push(1);
  void stage.sender.push(2);
  await stage.answer();
  expect(stage.sent).toEqual([1, 2]);
  void stage.sender.push(3);
  await stage.answer();
  expect(stage.sent).toEqual([1, 2, 3]);
  await stage.answer();
  await done;
  void stage.sender.push(4);
  expect(stage.sent).toEqual([1, 2, 3, 4]);
});
