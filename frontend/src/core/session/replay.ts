import type { RunState } from '../../protocol/messages';

/** The state of a replay. */
export interface Replay {
  readonly step: number;
  readonly paused: boolean;
  readonly speed: number;
  readonly first: number;
  readonly last: number;
}

export const kSpeeds = [0.1, 0.25, 0.5, 1, 2, 5, 10, 25, 100] as const;

/** Null while the run is live. */
export function replayOf(state: RunState | null): Replay | null {
  if (state?.phase !== 'replay') return null;
  const { step, paused = false, speed = 1, first_step = 1, last_step = step } = state;
  return { step, paused, speed, first: first_step, last: Math.max(first_step, last_step) };
}

/** The speeds to choose from. They include a current speed that is not in the list. */
export function speedChoices(speed: number): readonly number[] {
  return [...new Set([...kSpeeds, speed])].sort((a, b) => a - b);
}
