import type { RunState } from '../../protocol/messages';

/** Whether the run has begun and has not ended. A replay is not a run in progress. */
export function isInProgress(state: RunState | null): boolean {
  return ['paused', 'training', 'evaluating'].includes(state?.phase ?? '');
}
