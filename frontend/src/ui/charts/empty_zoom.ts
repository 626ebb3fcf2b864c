import { lowerBound } from '../../base/decimate';
import type { Zoom } from '../../base/step_range';

type Line = readonly (number | null)[];

/** Whether a zoom contains no part of the lines, although there is data outside of it. */
export function leavesNothing(
  steps: readonly number[],
  lines: readonly Line[],
  zoom: Zoom,
): boolean {
  if (zoom === null || steps.length === 0) return false;
  const first = lowerBound(steps, zoom[0]);
  let end = first;
  while (end < steps.length && steps[end] <= zoom[1]) end += 1;
  // If there are steps on both sides of the zoom, a line between them passes through it.
  if (first === end) return first === 0 || first === steps.length;
  return lines.every((line) => {
    for (let row = first; row < end; row++) if (isNumber(line[row])) return false;
    return true;
  });
}

function isNumber(value: number | null | undefined): boolean {
  return value !== null && value !== undefined;
}
