import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Answer, PlanEntry } from '../../protocol/messages';
import { PlanChecker } from './plan_checker.svelte';

type Asked = readonly [plan: unknown, answer: (answer: Answer) => void];

const kFirst: PlanEntry = { point: 'HiddenStates' };
const kSecond: PlanEntry = { point: 'MLP1' };

class Stage {
  readonly asked: Asked[] = [];
  readonly checker = new PlanChecker({
    request: (_, params) => new Promise((resolve) => this.asked.push([params, resolve])),
  });

  async type(...entries: PlanEntry[]): Promise<void> {
    this.checker.check(entries);
    await vi.advanceTimersByTimeAsync(250);
  }

  async answer(index: number, ...bytes: number[]): Promise<void> {
    const entries = bytes.map((each) => ({ bytes: each, records: 4, flops: 2 * each }));
    const bytes_per_step = bytes.reduce((sum, each) => sum + each, 0);
    const result = { entries, bytes_per_step, flops_per_step: 2 * bytes_per_step };
    this.asked[index][1]({ id: 1, ok: true, result });
    await vi.advanceTimersByTimeAsync(0);
  }

  async refuse(index: number, code: string): Promise<void> {
    this.asked[index][1]({ id: 1, ok: false, error: { code, message: 'no' } });
    await vi.advanceTimersByTimeAsync(0);
  }
}

let stage: Stage;
beforeEach(() => {
  vi.useFakeTimers();
  stage = new Stage();
});
afterEach(() => vi.useRealTimers());

test('it asks once the draft stands still, and no draft twice', async () => {
  stage.checker.check([kFirst]);
  await vi.advanceTimersByTimeAsync(200);
  await stage.type(kFirst, kSecond);
  expect(stage.asked.map(([params]) => params)).toEqual([{ plan: { entries: [kFirst, kSecond] } }]);
  await stage.answer(0, 100, 20);
  expect([stage.checker.bytesPerStep, stage.checker.flopsPerStep]).toEqual([120, 240]);
  expect(stage.checker.estimateOf(kSecond)).toEqual({ bytes: 20, records: 4, flops: 40 });
  expect(stage.checker.fresh).toBe(true);
  await stage.type(kFirst, kSecond);
  expect(stage.asked).toHaveLength(1);
});

test('an answer to an older draft is dropped', async () => {
  await stage.type(kFirst);
  await stage.type(kSecond);
  await stage.answer(1, 7);
  await stage.answer(0, 5);
  expect(stage.checker.bytesPerStep).toBe(7);
  await stage.type(kFirst);
  stage.checker.check([kSecond]);
  await stage.refuse(2, 'invalid_argument');
  expect(stage.checker.error).toBeNull();
});

test('while a draft is typed the numbers of its other entries stay', async () => {
  await stage.type(kFirst, kSecond);
  await stage.answer(0, 100, 20);
  stage.checker.check([{ ...kFirst, every: 2 }, kSecond]);
  expect(stage.checker.fresh).toBe(false);
  expect(stage.checker.estimateOf(kSecond)?.bytes).toBe(20);
  expect(stage.checker.estimateOf({ ...kFirst, every: 2 })).toBeNull();
});

test('what is wrong with the draft is told, what else goes wrong is not', async () => {
  await stage.type(kFirst);
  await stage.refuse(0, 'invalid_expression');
  expect(stage.checker.error?.code).toBe('invalid_expression');
  expect(stage.checker.bytesPerStep).toBeNull();
  await stage.type(kSecond);
  expect(stage.checker.error).toBeNull();
  await stage.refuse(1, 'no_trainer');
  expect(stage.checker.error).toBeNull();
});

test('a hub that does not know the question is not asked again, until it is another', async () => {
  await stage.type(kFirst);
  await stage.refuse(0, 'unknown_method');
  await stage.type(kSecond);
  expect(stage.asked).toHaveLength(1);
  expect(stage.checker.error).toBeNull();
  stage.checker.restart();
  await stage.type(kSecond);
  expect(stage.asked).toHaveLength(2);
});

test('without a draft to check nothing is asked, and what comes late is dropped', async () => {
  await stage.type(kFirst);
  stage.checker.check(null);
  await vi.advanceTimersByTimeAsync(1000);
  await stage.answer(0, 5);
  expect(stage.checker.bytesPerStep).toBeNull();
  expect(stage.asked).toHaveLength(1);
});
