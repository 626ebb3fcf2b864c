import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Answer, HubError } from '../../protocol/messages';
import { Controller } from '../../core/session/controller.svelte';
import type { Session } from '../../core/session/session';
import type { WorkerLink } from '../../core/worker/worker_link';
import { ProgramDraft } from './program_draft.svelte';

const kChecked = { text: 'x', positions: 4, parameters: [], reads: [], writes: [], flops: 0 };
const kPreview = { step: 7, batches: [{ batch: 'eval', loss_off: 2, loss_on: 1.5 }], notes: [] };
const kStates = {
  ...{ name: 'HiddenStates', flag: 7, first_layer: 1, last_layer: 2, dims: [] },
  ...{ features: 32, text: '' },
};
const kRun = {
  ...{ id: 'r', points: [kStates], prompt_sets: [] },
  model: {
    seq_length: 16,
    num_layers: 2,
    hidden_size: 32,
    num_attention_heads: 4,
    vocab_size: 256,
  },
};

/** A draft that a hub has checked. The hub answers a preview with the results of `previews`. */
class Stage {
  readonly asked: (readonly [string, object])[] = [];
  previews: (object | HubError)[] = [];
  checked: HubError | null = null;
  readonly draft: ProgramDraft;

  constructor() {
    vi.stubGlobal('localStorage', { getItem: () => null, setItem: () => undefined });
    const request = (method: string, params: object): Promise<Answer> => {
      this.asked.push([method, params]);
      return Promise.resolve(this.answer(method));
    };
    const link = { request } as unknown as WorkerLink;
    const control = new Controller(link);
    control.greeted('v1', { holder: { session: 'v1', name: 'Ada' } }, true);
    const view = { program: 'x', programName: 'steer' };
    const session = { link, control, view, run: kRun, replay: null, connection: { kind: 'open' } };
    this.draft = new ProgramDraft(session as unknown as Session);
  }

  async check(): Promise<void> {
    this.draft.follow();
    await vi.advanceTimersByTimeAsync(300);
  }

  private answer(method: string): Answer {
    const result =
      method === 'intervention.check' ? (this.checked ?? kChecked) : (this.previews.shift() ?? {});
    return 'code' in result
      ? { id: 1, ok: false, error: result as HubError }
      : { id: 1, ok: true, result };
  }
}

let stage: Stage;
beforeEach(() => {
  vi.useFakeTimers();
  stage = new Stage();
});
afterEach(() => void vi.useRealTimers());

function previewsAsked(): boolean[] {
  return stage.asked
    .filter(([method]) => method === 'intervention.preview')
    .map(([, params]) => 'plan' in params);
}

test('a preview whose plan is refused is asked again without records', async () => {
  await stage.check();
  stage.previews = [{ code: 'too_large', message: 'no', where: 'plan.entries[0]' }, kPreview];
  await stage.draft.askPreview();
  expect(previewsAsked()).toEqual([true, false]);
  expect(stage.draft.previewed?.answer.step).toBe(7);
  expect([stage.draft.refused, stage.draft.beforeAfter, stage.draft.texts]).toEqual([
    null,
    null,
    [],
  ]);
});

test('a preview whose program is refused is not asked again', async () => {
  await stage.check();
  stage.previews = [{ code: 'invalid_expression', message: 'no', where: 'program' }];
  await stage.draft.askPreview();
  expect(previewsAsked()).toEqual([true]);
  expect([stage.draft.refused?.code, stage.draft.previewed]).toEqual(['invalid_expression', null]);
});

test('a token that may only watch is told as the reason why nothing is checked', async () => {
  stage.checked = { code: 'not_allowed', message: 'no' };
  await stage.check();
  expect(stage.draft.hindrance).toContain('This token allows only viewing');
  expect(stage.draft.isReady).toBe(false);
});
