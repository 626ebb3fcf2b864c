import type { FrameBase } from '../store/frames';
import type { WatchedEntry } from './watched';

/** The number of captured steps between the newest frame and the run. */
export function lagOf(
  frame: Pick<FrameBase, 'steps'> | null,
  point: Pick<WatchedEntry, 'promptSet' | 'enabled' | 'every'> | null,
  phase: 'train' | 'eval',
  newestStep: number,
): number {
  if (frame === null || point === null) return 0;
  if (phase === 'eval' || point.promptSet > 0 || !point.enabled) return 0;
  const newest = frame.steps[frame.steps.length - 1] ?? 0;
  return Math.max(0, Math.floor((newestStep - newest) / point.every));
}

/** The earlier of two steps; null means no step. */
export function earlierOf(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.min(a, b);
}
