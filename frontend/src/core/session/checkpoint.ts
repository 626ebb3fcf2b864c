import type { Controller } from './controller.svelte';
import { isInProgress } from './progress';
import type { Session } from './session';

/** Whether the run can save a checkpoint now. Only a run with `--save` can. */
export function mayCheckpoint({ run, runState }: Pick<Session, 'run' | 'runState'>): boolean {
  return run?.resume_command !== undefined && isInProgress(runState);
}

interface Requester {
  readonly control: Pick<Controller, 'checkpoint'>;
  readonly toasts: Pick<Session['toasts'], 'say'>;
}

/** Requests a checkpoint. A toast tells its step; an event follows when the checkpoint is saved. */
export async function checkpointNow({ control, toasts }: Requester): Promise<void> {
  const step = await control.checkpoint();
  if (step === undefined) return;
  const text = `The checkpoint of step ${step} is being saved`;
  toasts.say({ key: 'checkpoint', text, tone: 'plain' });
}
