import { beforeEach, expect, test } from 'vitest';
import type { Session } from '../core/session/session';
import type { ToastText } from '../core/session/toasts.svelte';
import { type Plan, type PlanEntry, runSchema } from '../protocol/messages';
import { Tracing } from './tracing';

const kRun = runSchema(
  {
    ...{ id: '5f0c', name: 'demo', mesh: { tensor: 1, pipeline: 1, data: 1 } },
    model: { num_layers: 4, hidden_size: 8, num_attention_heads: 2, vocab_size: 9, seq_length: 4 },
    points: ['InputTokens', 'HiddenStates', 'MLP1', 'QKV', 'LogitLens', 'Scores'].map(
      (name, flag) => ({
        ...{ name, flag, first_layer: 1, last_layer: 4, features: name === 'InputTokens' ? 0 : 8 },
        dims: name === 'Scores' ? ['batch', 'heads', 'sequence', 'keys'] : ['batch', 'features'],
        formula: name === 'LogitLens' ? 'output_layer(final_norm(x))' : undefined,
      }),
    ),
  },
  'run',
);

/** A session whose hub accepts every plan, except a plan whose last point is `refused`. */
class Stage {
  readonly run = kRun;
  plan: Plan = { number: 1, entries: [{ point: 'InputTokens' }, { point: 'HiddenStates' }] };
  readonly connection = { kind: 'open' };
  replay: unknown = null;
  view = { point: 'HiddenStates' };
  refused = '';
  readonly control = {
    ...{ viewOnly: false, others: false, holder: { name: 'Ada' } },
    setPlan: ({ entries }: { entries: readonly PlanEntry[] }): Promise<unknown> => {
      if (entries.at(-1)?.point === this.refused) {
        const error = { code: 'invalid_argument', message: 'too much', remedy: 'take less' };
        return Promise.resolve({ ok: false, error });
      }
      const number = this.plan.number + 1;
      const taken = entries.map((entry) => ({ compressor: { kind: 'tile' }, ...entry }));
      this.plan = { number, entries: taken };
      return Promise.resolve({ ok: true, value: { number, step: 7, ranks: 1, plan: this.plan } });
    },
  };
  readonly said: ToastText[] = [];
  readonly toasts = { say: (toast: ToastText): void => void this.said.push(toast) };

  async undo(): Promise<void> {
    this.said.at(-1)?.action?.run();
    await new Promise((resolve) => setTimeout(resolve, 0));
  }

  choosePoint(point: string): void {
    this.view = { point };
  }
}

let stage: Stage;
let tracing: Tracing;
beforeEach(() => {
  stage = new Stage();
  tracing = new Tracing(stage as unknown as Session);
});
const points = (): readonly string[] => stage.plan.entries.map(({ point }) => point);

test('a point that is not traced is added, shown, and taken out again', async () => {
  expect(tracing.untraced.map(({ name }) => name)).toEqual(['MLP1', 'QKV', 'LogitLens', 'Scores']);
  await tracing.trace('MLP1');
  expect(points()).toEqual(['InputTokens', 'HiddenStates', 'MLP1']);
  expect(stage.view.point).toBe('MLP1');
  expect(stage.said.map(({ text }) => text)).toEqual(['MLP1 is traced from step 7 on']);
  // Another viewer has changed the plan in the meantime: the undo removes only this entry.
  const [tokens, states, mlp] = stage.plan.entries;
  stage.plan = { number: 9, entries: [mlp, { point: 'QKV' }, tokens, states] };
  await stage.undo();
  expect(points()).toEqual(['QKV', 'InputTokens', 'HiddenStates']);
  expect(stage.view.point).toBe('HiddenStates');
});

test('what costs time is traced now and then, and attention with every key', async () => {
  await tracing.trace('LogitLens');
  expect(stage.plan.entries.at(-1)).toMatchObject({ point: 'LogitLens', every: 10 });
  await tracing.trace('Scores');
  expect(stage.plan.entries.at(-1)).toMatchObject({ dtype: 'u8', compressor: { kind: 'none' } });
});

test('a point that is traced already can be traced in another way', async () => {
  await tracing.trace('HiddenStates', { compressor: { kind: 'stats' } });
  expect(stage.plan.entries.at(-1)).toEqual({
    point: 'HiddenStates',
    compressor: { kind: 'stats' },
  });
  expect(stage.view.point).toContain('stats');
});

test('what somebody else has taken out is not asked for', async () => {
  await tracing.trace('QKV');
  stage.plan = { number: 5, entries: [{ point: 'InputTokens' }] };
  await stage.undo();
  expect([stage.plan.number, stage.said.length]).toEqual([5, 1]);
});

test('a refusal is told with its remedy, and changes nothing', async () => {
  stage.refused = 'QKV';
  await tracing.trace('QKV');
  expect(stage.said).toMatchObject([{ text: 'QKV: too much; take less', tone: 'bad' }]);
  expect([stage.view.point, stage.plan.number]).toEqual(['HiddenStates', 1]);
});

test('who may not change the plan is told why', () => {
  expect(tracing.hindrance).toBeUndefined();
  stage.control.others = true;
  expect(new Tracing(stage as unknown as Session).hindrance).toBe('Ada holds control');
  stage.replay = {};
  expect(new Tracing(stage as unknown as Session).hindrance).toBe(
    'a recording cannot be traced again',
  );
});
