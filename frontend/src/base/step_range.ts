import { lowerBound } from './decimate';
import type { Cells } from './span';

/** The range of steps that the curves show; null means all steps. */
export type Zoom = readonly [low: number, high: number] | null;

type Range = readonly [low: number, high: number];

// The smallest width of a range, in steps: a curve has no more detail below it.
const kLeastSteps = 2;

/** Makes the range `factor` times as wide around `about`; null if it then covers all steps. */
export function scaled(
  range: Range,
  factor: number,
  about: number,
  all: Range,
  log: boolean,
): Zoom {
  return mapped(range, all, log, ([low, high], at) => [
    at(about) + (low - at(about)) * factor,
    at(about) + (high - at(about)) * factor,
  ]);
}

/** Moves the range by the fraction `by` of its width; the range stays inside of `all`. */
export function moved(range: Range, by: number, all: Range, log: boolean): Zoom {
  return mapped(range, all, log, ([low, high], at) => {
    const wish = by * (high - low);
    const shift = Math.max(at(all[0]) - low, Math.min(at(all[1]) - high, wish));
    return [low + shift, high + shift];
  });
}

/** Changes a range in screen proportions: with `log`, the change applies to the logarithms. */
function mapped(
  range: Range,
  all: Range,
  log: boolean,
  change: (range: Range, at: (value: number) => number) => Range,
): Zoom {
  const at = log ? Math.log : (value: number): number => value;
  const [low, high] = change([at(range[0]), at(range[1])], at).map(log ? Math.exp : (v) => v);
  return held([low, high], all);
}

/**
 * Limits a range to `all` and to the smallest width. The ends are rounded to a hundredth, as in the
 * page's address.
 */
export function held([low, high]: Range, all: Range): Zoom {
  const ends = [Math.max(low, all[0]), Math.min(high, all[1])] as const;
  if (ends[0] <= all[0] && ends[1] >= all[1]) return null;
  const middle = (ends[0] + ends[1]) / 2;
  const half = Math.max(kLeastSteps, ends[1] - ends[0]) / 2;
  return [rounded(Math.max(0.01, middle - half)), rounded(middle + half)];
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}

/** The index of the step that is nearest to a value on the axis; -1 if there are no steps. */
export function nearestIndex(steps: readonly number[], value: number): number {
  const at = lowerBound(steps, value);
  if (at === 0) return steps.length - 1 < 0 ? -1 : 0;
  if (at === steps.length) return at - 1;
  return steps[at] - value < value - steps[at - 1] ? at : at - 1;
}

/** The columns that a zoom shows of a map over steps; all columns if the zoom contains no step. */
export function stepCells(steps: readonly number[], zoom: Zoom): Cells {
  if (zoom === null) return [0, steps.length];
  const first = steps.findIndex((step) => step >= zoom[0]);
  const last = steps.findLastIndex((step) => step <= zoom[1]);
  return first < 0 || last < first ? [0, steps.length] : [first, last + 1];
}

/** The zoom that shows these columns; null means all steps. */
export function zoomOfCells(steps: readonly number[], [first, end]: Cells): Zoom {
  if (first <= 0 && end >= steps.length) return null;
  return [Math.max(0.5, steps[first] - 0.5), steps[end - 1] + 0.5];
}
