import { expect, test } from 'vitest';
import type { RunFacts, RunState } from '../../protocol/messages';
import { checkpointNow, mayCheckpoint } from './checkpoint';
import type { ToastText } from './toasts.svelte';

const may = (phase: RunState['phase'], resume_command?: string): boolean =>
  mayCheckpoint({ run: { resume_command } as RunFacts, runState: { phase, step: 1 } });

test('a run in progress that saves checkpoints can be asked for one', () => {
  expect(may('training', 'tensor-tracer train')).toBe(true);
  expect(may('paused', 'tensor-tracer train')).toBe(true);
  expect(may('training')).toBe(false);
  for (const phase of ['waiting', 'finished', 'stopped', 'lost', 'replay'] as const) {
    expect(may(phase, 'tensor-tracer train')).toBe(false);
  }
  expect(mayCheckpoint({ run: null, runState: null })).toBe(false);
});

test('a toast tells the step of the checkpoint, and nothing after a refusal', async () => {
  const said: string[] = [];
  const toasts = { say: ({ text }: ToastText): number => said.push(text) };
  const session = (step: number | undefined): Parameters<typeof checkpointNow>[0] => ({
    control: { checkpoint: () => Promise.resolve(step) },
    toasts,
  });
  await checkpointNow(session(undefined));
  expect(said).toEqual([]);
  await checkpointNow(session(12));
  expect(said).toEqual(['The checkpoint of step 12 is being saved']);
});
