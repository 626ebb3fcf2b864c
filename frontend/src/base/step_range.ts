import { lowerBound } from './decimate';
import type { Cells } from './span';

/** The part of the steps that the curves show; null shows all. */
export type Zoom = readonly [low: number, high: number] | null;

type Range = readonly [low: number, high: number];

// Closer than this a curve has nothing more to tell.
const kLeastSteps = 2;

/** The range around `about` made `factor` times as wide; null once it holds everything. */
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

/** The range moved by a fraction of its width, and kept inside of all. */
export function moved(range: Range, by: number, all: Range, log: boolean): Zoom {
  return mapped(range, all, log, ([low, high], at) => {
    const wish = by * (high - low);
    const shift = Math.max(at(all[0]) - low, Math.min(at(all[1]) - high, wish));
    return [low + shift, high + shift];
  });
}

/** Changes a range as it stands on the screen, where a logarithmic axis is even too. */
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

/** Inside of all and not too narrow; to a hundredth, as it stands in the address. */
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

/** The index of the step that is nearest to a place on the axis; -1 for none. */
export function nearestIndex(steps: readonly number[], value: number): number {
  const at = lowerBound(steps, value);
  if (at === 0) return steps.length - 1 < 0 ? -1 : 0;
  if (at === steps.length) return at - 1;
  return steps[at] - value < value - steps[at - 1] ? at : at - 1;
}

/** The columns of a map of steps that a zoom shows; all of them where it shows none. */
export function stepCells(steps: readonly number[], zoom: Zoom): Cells {
  if (zoom === null) return [0, steps.length];
  const first = steps.findIndex((step) => step >= zoom[0]);
  const last = steps.findLastIndex((step) => step <= zoom[1]);
  return first < 0 || last < first ? [0, steps.length] : [first, last + 1];
}

/** The zoom that shows these columns; null: all. */
export function zoomOfCells(steps: readonly number[], [first, end]: Cells): Zoom {
  if (first <= 0 && end >= steps.length) return null;
  return [Math.max(0.5, steps[first] - 0.5), steps[end - 1] + 0.5];
}
