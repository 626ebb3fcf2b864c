import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Outcome } from '../../core/session/controller.svelte';
import { Dial } from './dial.svelte';
import type { Acknowledged } from './interventions.svelte';

class Stage {
  readonly sent: number[] = [];
  refusal = '';
  readonly dial = new Dial(
    {
      set: (_program, _parameter, value): Promise<Outcome<Acknowledged>> => {
        this.sent.push(value);
        const { refusal: code } = this;
        if (code !== '') return Promise.resolve({ ok: false, error: { code, message: 'no' } });
        return Promise.resolve({ ok: true, value: { value, step: 13, ranks: 2 } });
      },
    },
    'steer',
    'alpha',
  );
}

let stage: Stage;
beforeEach(() => {
  vi.useFakeTimers();
  stage = new Stage();
});
afterEach(() => void vi.useRealTimers());

test('it shows what is wanted until the last value is acknowledged', async () => {
  for (let i = 1; i <= 50; i++) void stage.dial.move(i);
  expect(stage.dial.wanted).toBe(50);
  await vi.runAllTimersAsync();
  expect(stage.sent).toEqual([1, 50]);
  expect(stage.dial.wanted).toBeNull();
  expect(stage.dial.acknowledged).toMatchObject({ value: 50, step: 13 });
});

test('a value that a later one replaced is no error, any other refusal is', async () => {
  stage.refusal = 'superseded';
  void stage.dial.move(1);
  await vi.runAllTimersAsync();
  expect(stage.dial.error).toBeNull();
  stage.refusal = 'no_trainer';
  void stage.dial.move(2);
  await vi.runAllTimersAsync();
  expect(stage.dial.error?.code).toBe('no_trainer');
  expect(stage.dial.wanted).toBeNull();
  stage.refusal = '';
  void stage.dial.move(3);
  await vi.runAllTimersAsync();
  expect(stage.dial.error).toBeNull();
});
