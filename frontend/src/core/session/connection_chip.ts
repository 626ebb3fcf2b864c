import type { RunState } from '../../protocol/messages';
import type { Connection } from '../worker/link_messages';

export type ChipTone = 'good' | 'busy' | 'warn' | 'bad' | 'idle';

export interface Chip {
  readonly tone: ChipTone;
  /** One word for tests and style: live, lagging, paused, … */
  readonly word: string;
  readonly text: string;
}

/** The chip says "lagging" if the frame is more than this number of captured steps behind the run. */
export const kLagSteps = 3;

/**
 * The chip for a connection and a run. `lag` is the number of captured steps by which the frame is
 * behind the run.
 */
export function chipOf(
  connection: Connection,
  state: RunState | null,
  lag: number,
  now: number,
): Chip {
  // At the end of a run the hub also ends. This is not an error, so the chip shows no countdown.
  if ((state?.phase === 'finished' || state?.phase === 'stopped') && connection.kind !== 'open') {
    const chip = runChip(state, lag);
    return { ...chip, text: `${chip.text}, hub closed` };
  }
  switch (connection.kind) {
    case 'connecting':
      return { tone: 'busy', word: 'connecting', text: 'connecting…' };
    case 'reconnecting': {
      const seconds = Math.max(0, connection.at - now) / 1000;
      const text = `reconnecting in ${seconds.toFixed(1)} s`;
      return { tone: 'warn', word: 'reconnecting', text };
    }
    case 'refused':
      return { tone: 'bad', word: 'refused', text: 'not connected' };
    case 'open':
      return runChip(state, lag);
  }
}

function runChip(state: RunState | null, lag: number): Chip {
  if (state === null) return { tone: 'idle', word: 'waiting', text: 'waiting for a trainer' };
  switch (state.phase) {
    case 'starting':
      return { tone: 'busy', word: 'starting', text: 'trainer is starting' };
    case 'waiting':
      return { tone: 'warn', word: 'ready', text: 'ready to start' };
    case 'paused':
      return { tone: 'warn', word: 'paused', text: `paused after step ${state.step}` };
    case 'finished':
      return { tone: 'idle', word: 'ended', text: `ended at step ${state.step}` };
    case 'stopped':
      return { tone: 'idle', word: 'stopped', text: `stopped after step ${state.step}` };
    case 'replay':
      return replayChip(state);
    case 'lost':
      return { tone: 'bad', word: 'lost', text: `trainer lost at step ${state.step}` };
    case 'training':
    case 'evaluating':
      if (lag > kLagSteps) return { tone: 'warn', word: 'lagging', text: `lagging ${lag} steps` };
      return state.phase === 'training'
        ? { tone: 'good', word: 'live', text: 'live' }
        : { tone: 'good', word: 'evaluating', text: 'live · evaluating' };
  }
}

function replayChip(state: RunState): Chip {
  const { paused = false, speed = 1 } = state;
  return paused
    ? { tone: 'warn', word: 'replay', text: 'replay, paused' }
    : { tone: 'good', word: 'replay', text: `replay, ${speed}×` };
}
