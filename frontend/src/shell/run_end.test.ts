import { expect, test } from 'vitest';
import type { RunFacts, RunState } from '../protocol/messages';
import { endOf } from './run_end';

const kFinished: RunState = { phase: 'finished', step: 300 };

function runWith(recording?: string): RunFacts {
  return { host: 'login-1', ...(recording && { recording }) } as unknown as RunFacts;
}

test('a run that goes on has no end', () => {
  for (const phase of ['starting', 'training', 'paused', 'evaluating', 'replay'] as const) {
    expect(endOf({ phase, step: 3 }, runWith(), null, undefined)).toBeNull();
  }
  expect(endOf(null, null, null, undefined)).toBeNull();
});

test('the end names the step, the losses and how to replay it', () => {
  const end = endOf(kFinished, runWith('runs/demo/run.ttrec'), { step: 300, loss: 1.875 }, 2.5);
  expect(end).toEqual({
    tone: 'idle',
    text: 'The run ended at step 300 · loss 1.875 · valid 2.500',
    advice: 'Replay it on login-1, in the directory where it was started:',
    command: 'tensor-tracer replay runs/demo/run.ttrec',
  });
  const stopped = endOf({ phase: 'stopped', step: 12 }, runWith(), null, undefined);
  expect(stopped?.text).toBe('The run was stopped after step 12');
  expect(stopped?.tone).toBe('idle');
  const lost = endOf({ phase: 'lost', step: 7 }, runWith(), { step: 8, loss: null }, undefined);
  expect(lost?.text).toBe('The trainer was lost at step 8 · loss NaN');
  expect(lost?.tone).toBe('bad');
});

test('the command is one word for each of its parts', () => {
  const command = (recording: string): string | null | undefined =>
    endOf(kFinished, runWith(recording), null, undefined)?.command;
  expect(command('/data/run 1/run.ttrec')).toBe("tensor-tracer replay '/data/run 1/run.ttrec'");
  expect(command("it's/run.ttrec")).toBe("tensor-tracer replay 'it'\\''s/run.ttrec'");
  expect(command('$HOME/run.ttrec')).toBe("tensor-tracer replay '$HOME/run.ttrec'");
});

test('a run without a recording says where the reason is', () => {
  const silent = endOf(kFinished, runWith(), null, undefined);
  expect(silent?.command).toBeNull();
  expect(silent?.advice).toContain('output of the run');
});
