import type { StepRange } from '../worker/history_client';

/** The steps that can be shown. */
export interface StepTrack {
  /** The first and the last step of the slider. */
  readonly first: number;
  readonly last: number;
  readonly spacing: number;
  /** The steps in the page's store. */
  readonly kept: readonly number[];
  /** The range of steps in the hub's history. */
  readonly history: StepRange | null;
}

export function trackOf(
  kept: readonly number[],
  known: StepRange | null,
  spacing: number,
): StepTrack {
  const newest = kept[kept.length - 1] ?? known?.last ?? 1;
  const oldest = Math.min(kept[0] ?? newest, known?.first ?? newest);
  // The history grows with the run.
  const history = known === null ? null : { ...known, last: Math.max(known.last, newest) };
  // The first step is on the grid of the captured steps, so that the slider stops at captured steps.
  const first = newest - Math.floor((newest - oldest) / spacing) * spacing;
  return { first, last: newest, spacing, kept, history };
}

/**
 * The next (`by` 1) or the previous (`by` -1) captured step: from the hub's history if it contains
 * the step, otherwise from the page's store. Null means to follow the newest step. At the first step,
 * the result is `current`.
 */
export function stepFrom(track: StepTrack, current: number, by: 1 | -1): number | null {
  const { kept, history, spacing } = track;
  const wanted = current + by * spacing;
  const held = by > 0 ? kept.find((step) => step > current) : kept.findLast((s) => s < current);
  const isInHistory = history !== null && wanted >= history.first && wanted <= history.last;
  const isHeldCloser = held !== undefined && Math.abs(held - current) <= spacing;
  const next = isInHistory && !isHeldCloser ? wanted : held;
  if (next === undefined) return by > 0 ? null : current;
  return by > 0 && next >= track.last ? null : next;
}

export interface Segment {
  /** The start and the end in percent of the track. */
  readonly from: number;
  readonly to: number;
}

// More segments would be smaller than a pixel of the slider.
const kMaxSegments = 200;

/** The parts of the track in the page's store; the steps between are in the hub's history or missing. */
export function keptSegments(track: StepTrack): readonly Segment[] {
  const { first, last, spacing, kept } = track;
  const span = Math.max(1, last - first);
  const most = Math.max(spacing, span / kMaxSegments);
  const segments: { from: number; to: number }[] = [];
  for (const step of kept) {
    const at = segments[segments.length - 1];
    if (at !== undefined && step - at.to <= most) at.to = step;
    else segments.push({ from: step, to: step });
  }
  return segments.map(({ from, to }) => ({
    from: percentOf(track, from - spacing / 2),
    to: percentOf(track, to + spacing / 2),
  }));
}

/** The track as a CSS background: the colour `held` over the colour `reachable`. */
export function trackPaint(track: StepTrack, held: string, reachable: string): string {
  const { history } = track;
  const layers = keptSegments(track).map(({ from, to }) => paint(held, from, to));
  if (history !== null) {
    const [from, to] = [history.first, history.last].map((step) => percentOf(track, step));
    layers.push(paint(reachable, from, to));
  }
  return layers.join(', ');
}

function percentOf({ first, last }: StepTrack, step: number): number {
  return Math.min(100, Math.max(0, (100 * (step - first)) / Math.max(1, last - first)));
}

function paint(color: string, from: number, to: number): string {
  const [a, b] = [from.toFixed(2), to.toFixed(2)];
  return `linear-gradient(90deg, transparent ${a}%, ${color} ${a}% ${b}%, transparent ${b}%)`;
}
