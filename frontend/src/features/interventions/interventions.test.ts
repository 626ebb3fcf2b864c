import { beforeEach, expect, test, vi } from 'vitest';
import { programSchema } from '../../protocol/interventions';
import type { Answer } from '../../protocol/messages';
import type { WorkerLink } from '../../core/worker/worker_link';
import { Controller } from '../../core/session/controller.svelte';
import { Interventions } from './interventions.svelte';

const kProgram = programSchema(
  { name: 'steer', since: 13, parameters: [{ name: 'alpha', value: 4 }] },
  '',
);
const kError = { code: 'no_trainer', message: 'no worker is connected' };

class Stage {
  readonly asked: (readonly [string, unknown])[] = [];
  result: unknown = null;
  readonly control: Controller;
  readonly interventions: Interventions;

  constructor() {
    vi.stubGlobal('localStorage', { getItem: () => null, setItem: () => undefined });
    const request = (method: string, params: unknown): Promise<Answer> => {
      this.asked.push([method, params]);
      if (this.result === null) return Promise.resolve({ id: 1, ok: false, error: kError });
      return Promise.resolve({ id: 1, ok: true, result: this.result });
    };
    this.control = new Controller({ request } as unknown as WorkerLink);
    this.control.greeted('v1', { holder: { session: 'v1', name: 'Ada' } }, true);
    this.interventions = new Interventions(this.control);
    this.interventions.inForce([kProgram]);
  }
}

let stage: Stage;
beforeEach(() => (stage = new Stage()));

test('a value that was acknowledged is shown, one that was refused is not', async () => {
  const value = (): number => stage.interventions.programs[0].parameters[0].value;
  expect((await stage.interventions.set('steer', 'alpha', 9)).ok).toBe(false);
  expect(value()).toBe(4);
  stage.result = { step: 14, ranks: 2, value: 8.5 };
  await stage.interventions.set('steer', 'alpha', 9);
  expect(value()).toBe(8.5);
});

test('while a slider moves other buttons need not wait', () => {
  void stage.interventions.set('steer', 'alpha', 9);
  expect(stage.control.waits('')).toBe(false);
  void stage.interventions.revert();
  expect(stage.control.waits('intervention.remove')).toBe(true);
});

test('what was reverted is told, by step and ranks', async () => {
  stage.result = { step: 13, ranks: 2, removed: ['steer', 'clamp'] };
  await stage.interventions.revert();
  expect(stage.asked).toEqual([['intervention.remove', {}]]);
  expect(stage.control.notice).toBe('Reverted steer, clamp from step 13 on (2 ranks)');
  stage.result = null;
  await stage.interventions.revert('steer');
  expect(stage.control.error).toEqual(kError);
});

test('only what is chosen is sent with a program', async () => {
  const common = { name: 'steer', program: 'x', parameters: {}, keep: false };
  await stage.interventions.apply({ ...common, ttl: null });
  await stage.interventions.apply({ ...common, ttl: 5 });
  expect(stage.asked.map(([, params]) => params)).toEqual([common, { ...common, ttl: 5 }]);
});

test('notifications change what is in force, others nothing', () => {
  const params = { step: 14, programs: [], reason: 'remove' };
  stage.interventions.onNotification({ event: 'log', params: { level: 'info', message: 'x' } });
  expect(stage.interventions.programs).toHaveLength(1);
  stage.interventions.onNotification({ event: 'interventions', params });
  expect(stage.interventions.programs).toEqual([]);
});
