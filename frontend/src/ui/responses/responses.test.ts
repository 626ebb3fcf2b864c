import { expect, test } from 'vitest';
import {
  type AuditLine,
  type ResponseFacts,
  type RunFacts,
  runSchema,
} from '../../protocol/messages';
import { Responses } from './responses.svelte';

const kModel = {
  num_layers: 4,
  hidden_size: 8,
  num_attention_heads: 2,
  vocab_size: 9,
  seq_length: 9,
};

function runOf(id: string): RunFacts {
  const mesh = { tensor: 1, pipeline: 1, data: 1 };
  return runSchema({ id, name: 'demo', mesh, model: kModel, points: [] }, 'run');
}

function facts(step: number): ResponseFacts {
  const text = `at ${step}`;
  return { step, prompt_set: 1, prompt: 0, text, token_ids: [7], finish_reason: 'stop' };
}

function line(step: number, change: Partial<AuditLine> = {}): AuditLine {
  const common = { id: step, time_ns: step, who: '', kind: 'response', run: '5f0c' };
  return { ...common, step, detail: facts(step), ...change };
}

test('responses come from notifications and from the trail of the run; another run has none', () => {
  const responses = new Responses();
  expect(responses.isEmpty).toBe(true);
  responses.onRun(runOf('5f0c'), true);
  responses.onNotification({ event: 'response', params: facts(20) });
  responses.onTrail([
    line(10),
    line(20),
    line(30, { run: 'other' }),
    line(40, { kind: 'log' }),
    line(50, { detail: { step: 50 } }),
  ]);
  expect(responses.of(1, 0, null).map(({ step }) => step)).toEqual([20, 10]);
  expect(responses.of(1, 0, 15).map(({ text }) => text)).toEqual(['at 10']);
  responses.onRun(runOf('5f0c'), false);
  expect(responses.isEmpty).toBe(false);
  responses.onRun(runOf('other'), true);
  expect(responses.of(1, 0, null)).toEqual([]);
});
