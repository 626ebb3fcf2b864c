import { lowerBound } from '../../base/decimate';
import type { Departure } from './frame';

/** A root mean square of more than so many times its median is out of range. */
export const kDepartureTimes = 4;
/** The median is of so many steps before, and of no fewer than the second number. */
export const kDepartureWindow = 50;
const kFewest = 5;

type Line = readonly (number | null)[];

interface Lines {
  readonly layers: readonly number[];
  readonly steps: readonly number[];
  /** Both by layer, then by step. */
  readonly rms: readonly Line[];
  readonly bad: readonly Line[];
}

/**
 * The layer that left its range first: the earliest step with a number that is not finite, or with
 * a root mean square beyond `kDepartureTimes` times the layer's own median just before it. Of
 * several layers at one step the lowest, as a forward pass goes upwards.
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

/** Of one layer, before step number `end`. */
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
