import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { number, object } from '../../base/schema';
import type { Answer } from '../../protocol/messages';
import { LiveCheck } from './live_check.svelte';

class Stage {
  readonly asked: ((answer: Answer) => void)[] = [];
  readonly check = new LiveCheck<{ readonly program: string }, { readonly positions: number }>(
    { request: () => new Promise((resolve) => this.asked.push(resolve)) },
    'intervention.check',
    object({ positions: number }),
  );

  async type(program: string): Promise<void> {
    this.check.check({ program });
    await vi.advanceTimersByTimeAsync(250);
  }

  async answer(result: unknown): Promise<void> {
    this.asked.at(-1)?.({ id: 1, ok: true, result });
    await vi.advanceTimersByTimeAsync(0);
  }

  async refuse(code: string): Promise<void> {
    this.asked.at(-1)?.({ id: 1, ok: false, error: { code, message: 'no' } });
    await vi.advanceTimersByTimeAsync(0);
  }
}

let stage: Stage;
beforeEach(() => {
  vi.useFakeTimers();
  stage = new Stage();
});
afterEach(() => void vi.useRealTimers());

test('an answer stands with what it is about, fresh until the next letter', async () => {
  await stage.type('a');
  await stage.answer({ positions: 7 });
  expect(stage.check.answered).toEqual({ asked: { program: 'a' }, result: { positions: 7 } });
  expect(stage.check.fresh).toBe(true);
  stage.check.check({ program: 'ab' });
  expect(stage.check.fresh).toBe(false);
  expect(stage.check.answered?.result.positions).toBe(7);
});

test('what is wrong with the draft is an error, what else is refused a hindrance', async () => {
  for (const code of ['invalid_expression', 'invalid_graph']) {
    await stage.type(code);
    await stage.refuse(code);
    expect([stage.check.error?.code, stage.check.hindrance]).toEqual([code, null]);
  }
  await stage.type('b');
  await stage.refuse('not_allowed');
  expect([stage.check.error, stage.check.hindrance?.code]).toEqual([null, 'not_allowed']);
  await stage.type('c');
  await stage.answer({ positions: 7 });
  expect(stage.check.hindrance).toBeNull();
});

test('what only hinders for a while is asked again, the last draft alone', async () => {
  await stage.type('a');
  await stage.refuse('no_trainer');
  await vi.advanceTimersByTimeAsync(5000);
  expect(stage.asked).toHaveLength(2);
  await stage.refuse('busy');
  await stage.type('b');
  await stage.answer({ positions: 7 });
  await vi.advanceTimersByTimeAsync(20_000);
  expect(stage.asked).toHaveLength(3);
  expect(stage.check.hindrance).toBeNull();
  await stage.type('c');
  await stage.refuse('not_allowed');
  await vi.advanceTimersByTimeAsync(20_000);
  expect(stage.asked).toHaveLength(4);
});

test('nobody hinders where nothing is to be checked', async () => {
  await stage.type('a');
  await stage.refuse('no_trainer');
  stage.check.check(null);
  expect(stage.check.hindrance).toBeNull();
  await vi.advanceTimersByTimeAsync(20_000);
  expect(stage.asked).toHaveLength(1);
});

test('an answer of another form judges nothing', async () => {
  await stage.type('a');
  await stage.answer({ positions: 'many' });
  expect([stage.check.answered, stage.check.fresh, stage.check.error]).toEqual([null, false, null]);
});

test('another hub is asked anew', async () => {
  await stage.type('a');
  await stage.answer({ positions: 7 });
  stage.check.restart();
  expect(stage.check.fresh).toBe(false);
  await stage.type('a');
  expect(stage.asked).toHaveLength(2);
});
