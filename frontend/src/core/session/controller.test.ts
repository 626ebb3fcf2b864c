import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Answer } from '../../protocol/messages';
import type { WorkerLink } from '../worker/worker_link';
import { Controller } from './controller.svelte';

type Request = readonly [method: string, params: unknown];

class Stage {
  readonly asked: Request[] = [];
  refused = false;
  /** No request is answered. */
  mute = false;
  control: Controller;
  private readonly kept = new Map<string, string>();

  constructor() {
    vi.stubGlobal('localStorage', { getItem: () => null, setItem: () => undefined });
    vi.stubGlobal('sessionStorage', {
      getItem: (key: string) => this.kept.get(key) ?? null,
      setItem: (key: string, value: string) => this.kept.set(key, value),
    });
    this.control = this.reload();
    this.control.greeted('v1', { holder: null }, true);
  }

  reload(): Controller {
    const link = { request: (method: string, params: unknown) => this.answer(method, params) };
    return (this.control = new Controller(link as unknown as WorkerLink));
  }

  private answer(method: string, params: unknown): Promise<Answer> {
    this.asked.push([method, params]);
    if (this.mute) return new Promise(() => undefined);
    if (this.refused) {
      const error = { code: 'not_allowed', message: 'this token allows only viewing' };
      return Promise.resolve({ id: 1, ok: false, error });
    }
    const result = method === 'control.claim' ? { lease_seconds: 30 } : { step: 12, ranks: 0 };
    return Promise.resolve({ id: 1, ok: true, result });
  }
}

let stage: Stage;
beforeEach(() => (stage = new Stage()));

test('stop is asked for by the holder, and its answer told', async () => {
  await stage.control.stop();
  expect(stage.asked.map(([method]) => method)).toEqual(['control.claim', 'control.stop']);
  expect(stage.control.notice).toBe('The run ends after step 12');
});

test('a checkpoint is asked for by the holder, once at a time, and has a step', async () => {
  await stage.control.claim(false);
  const asked = [stage.control.checkpoint(), stage.control.checkpoint()];
  expect(await Promise.all(asked)).toEqual([12, undefined]);
  expect(stage.asked.map(([method]) => method)).toEqual(['control.claim', 'checkpoint.save']);
  stage.control.changed({ holder: { session: 'v9', name: 'Ada' } });
  expect(await stage.control.checkpoint()).toBeUndefined();
  expect(stage.control.error?.message).toBe('Ada holds control');
});

test('a pause need not wait for a plan, but for what pauses, steps or continues', async () => {
  await stage.control.claim(false);
  stage.mute = true;
  void stage.control.setPlan({ entries: [] });
  void stage.control.pause();
  void stage.control.step();
  expect(stage.asked.map(([method]) => method)).toEqual([
    'control.claim',
    'plan.set',
    'control.pause',
  ]);
});

test('what ends first leaves the other on its way', async () => {
  await stage.control.claim(false);
  const paused = stage.control.pause();
  stage.mute = true;
  void stage.control.setPlan({ entries: [] });
  await paused;
  expect(stage.control.waits('control.')).toBe(false);
  expect(stage.control.waits('plan.set')).toBe(true);
});

test('a token that only views is known by its refused claim, and asks for no more', async () => {
  stage.refused = true;
  await stage.control.pause();
  expect(stage.control.viewOnly).toBe(true);
  await stage.control.pause();
  expect(stage.asked).toHaveLength(1);
  expect(stage.control.error?.message).toBe('this token allows only viewing');
  stage.control.greeted('v2', { holder: null }, true);
  expect(stage.control.viewOnly).toBe(false);
  stage.control.greeted('v3', { holder: null }, false);
  expect(stage.control.viewOnly).toBe(true);
});

test('of the places of a moving slider the first and the last are sought', async () => {
  vi.useFakeTimers();
  const done = [10, 20, 30].map((step) => stage.control.seek(step));
  await vi.runAllTimersAsync();
  await Promise.all(done);
  vi.useRealTimers();
  const seeks = stage.asked.filter(([method]) => method === 'replay.seek');
  expect(seeks.map(([, params]) => params)).toEqual([{ step: 10 }, { step: 30 }]);
});

test('the speed of a replay is set', async () => {
  await stage.control.setSpeed(2);
  expect(stage.asked.at(-1)).toEqual(['replay.speed', { speed: 2 }]);
});

test('how many ranks of all have done it is told', () => {
  expect(stage.control.ranksText(1)).toBe('1 rank');
  expect(stage.control.ranksText(2)).toBe('2 ranks');
  stage.control.allRanks = 4;
  expect(stage.control.ranksText(4)).toBe('4/4 ranks');
});

test('start makes the page a viewer that watches, as holder of control', async () => {
  await stage.control.start();
  expect(stage.asked).toEqual([
    ['control.claim', { name: 'viewer v1', take_over: false }],
    ['subscribe', {}],
  ]);
});

describe('what the hub still keeps for the session before', () => {
  const held = { holder: { session: 'v1', name: 'viewer v1' } };
  const claims = (): number => stage.asked.filter(([method]) => method === 'control.claim').length;

  test('is claimed again after a reconnect and after a reload', async () => {
    await stage.control.claim(false);
    stage.control.disconnected();
    stage.control.greeted('v2', held, true);
    await vi.waitFor(() => expect(stage.control.mine).toBe(true));
    stage.reload().greeted('v3', { holder: { session: 'v2', name: 'viewer v2' } }, true);
    await vi.waitFor(() => expect(stage.control.mine).toBe(true));
    expect(stage.asked).toEqual([
      ['control.claim', { name: 'viewer v1', take_over: false }],
      ['control.claim', { name: 'viewer v2', take_over: false }],
      ['control.claim', { name: 'viewer v3', take_over: false }],
    ]);
  });

  test('is not claimed by who only watched, gave it back or lost it', async () => {
    stage.control.disconnected();
    stage.control.greeted('v2', held, true);
    expect(claims()).toBe(0);
    await stage.control.claim(true);
    await stage.control.release();
    stage.reload().greeted('v3', { holder: { session: 'v2', name: 'viewer v2' } }, true);
    await stage.control.claim(true);
    stage.control.changed({ holder: { session: 'v9', name: 'Ada' } });
    stage.reload().greeted('v4', { holder: { session: 'v3', name: 'viewer v3' } }, true);
    expect(claims()).toBe(2);
  });

  test('is not claimed by a reload once it has ended', async () => {
    await stage.control.claim(false);
    stage.reload().greeted('v2', { holder: null }, true);
    expect(claims()).toBe(1);
  });

  test('is left to a tab that still has it, without a word', async () => {
    await stage.control.claim(false);
    stage.refused = true;
    stage.reload().greeted('v2', held, true);
    await vi.waitFor(() => expect(claims()).toBe(2));
    await Promise.resolve();
    expect([stage.control.mine, stage.control.error]).toEqual([false, null]);
  });
});
