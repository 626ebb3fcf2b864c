type Values = readonly (number | null)[];

/** The part of the x axis that is drawn, with its scale and its width. */
export interface Window {
  readonly low: number;
  readonly high: number;
  readonly log: boolean;
  /** The width in pixels. */
  readonly columns: number;
}

/** Above this number of rows for each pixel column, the rows cannot be distinguished. */
export const kRowsPerColumn = 2;

/** The first index whose value is at least `wanted`. */
export function lowerBound(sorted: readonly number[], wanted: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The rows to draw; null means all. With `dense`, they represent the many rows of each column. */
export interface DrawnRows {
  readonly rows: readonly number[] | null;
  readonly dense: boolean;
}

/**
 * A subset of the rows that draws the same picture as all rows: the rows in the window and one more
 * at each side. If the window has more than `kRowsPerColumn` rows for each pixel column, the subset
 * has for each pixel column the first row and the last row, and for each line the rows of the
 * smallest value, the largest value and one missing value.
 */
export function rowsToDraw(
  x: readonly number[],
  lines: readonly Values[],
  window: Window,
): DrawnRows {
  if (x.length <= kRowsPerColumn * window.columns) return { rows: null, dense: false };
  const begin = Math.max(0, lowerBound(x, window.low) - 1);
  const end = Math.min(x.length, lowerBound(x, window.high) + 2);
  const rows: number[] = [];
  if (end - begin <= kRowsPerColumn * window.columns) {
    for (let row = begin; row < end; row++) rows.push(row);
    return { rows, dense: false };
  }
  let from = begin;
  for (let column = 1; from < end; column++) {
    const edge = column >= window.columns ? Number.POSITIVE_INFINITY : edgeOf(window, column);
    let to = from;
    while (to < end && x[to] < edge) to += 1;
    if (to > from) pushColumn(rows, lines, from, to);
    from = to;
  }
  return { rows, dense: true };
}

/** The value on the axis at which a pixel column begins. */
function edgeOf({ low, high, log, columns }: Window, column: number): number {
  const part = column / columns;
  return log ? low * (high / low) ** part : low + (high - low) * part;
}

/** Appends the rows to keep, in ascending order, of the rows from `from` to before `to`. */
function pushColumn(rows: number[], lines: readonly Values[], from: number, to: number): void {
  const kept = [from, to - 1];
  for (const line of lines) {
    let least = -1;
    let largest = -1;
    let missing = -1;
    for (let row = from; row < to; row++) {
      const value = line[row];
      if (value === null) missing = row;
      else {
        if (least < 0 || value < (line[least] as number)) least = row;
        if (largest < 0 || value > (line[largest] as number)) largest = row;
      }
    }
    for (const row of [least, largest, missing]) if (row >= 0) kept.push(row);
  }
  kept.sort((a, b) => a - b);
  kept.forEach((row, i) => {
    if (i === 0 || row !== kept[i - 1]) rows.push(row);
  });
}
