import { lowerBound } from '../../base/decimate';
import type { Departure } from './frame';

/** A root mean square is out of range if it is more than this number times its median. */
export const kDepartureTimes = 4;
/** The median is over at most `kDepartureWindow` earlier steps, and over at least `kFewest`. */
export const kDepartureWindow = 50;
const kFewest = 5;

type Line = readonly (number | null)[];

interface Lines {
  readonly layers: readonly number[];
  readonly steps: readonly number[];
  /** `rms` and `bad` are by layer, then by step. */
  readonly rms: readonly Line[];
  readonly bad: readonly Line[];
}

/**
 * The layer that left its range first. A layer leaves its range at a step with a number that is not
 * finite, or with a root mean square of more than `kDepartureTimes` times the layer's median over the
 * steps just before. If several layers leave at the same step, the result is the lowest layer, because
 * a forward pass goes upwards.
 */
export function firstDeparture({ layers, steps, rms, bad }: Lines): Departure | null {
  let first: Departure | null = null;
  layers.forEach((layer, index) => {
    const end = first === null ? steps.length : steps.indexOf(first.step);
    const found = departureOf(rms[index], bad[index], end);
    if (found !== undefined) first = { layer, step: steps[found.at], ...found.how };
  });
  return first;
}

interface Found {
  readonly at: number;
  readonly how: Pick<Departure, 'bad' | 'times'>;
}

/** The first departure of one layer before the step at index `end`. */
function departureOf(rms: Line, bad: Line, end: number): Found | undefined {
  const window: number[] = [];
  const sorted: number[] = [];
  for (let at = 0; at < end; at++) {
    const broken = bad[at] ?? 0;
    if (broken > 0) return { at, how: { bad: broken, times: 0 } };
    const value = rms[at];
    if (value === null) continue;
    const median = sorted[sorted.length >>> 1];
    if (sorted.length >= kFewest && median > 0 && value > kDepartureTimes * median) {
      return { at, how: { bad: 0, times: value / median } };
    }
    window.push(value);
    sorted.splice(lowerBound(sorted, value), 0, value);
    if (window.length > kDepartureWindow) {
      sorted.splice(lowerBound(sorted, window.shift() ?? 0), 1);
    }
  }
  return undefined;
}
