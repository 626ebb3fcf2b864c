type Values = readonly (number | null)[];

/** The part of the axis that is drawn, and how. */
export interface Window {
  readonly low: number;
  readonly high: number;
  readonly log: boolean;
  /** Pixels across. */
  readonly columns: number;
}

/** More rows than this for each pixel column cannot be told apart. */
export const kRowsPerColumn = 2;

/** The first index whose value is not below `wanted`. */
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

/** Rows to draw; null: all. `dense`: they stand for many more in every pixel column. */
export interface DrawnRows {
  readonly rows: readonly number[] | null;
  readonly dense: boolean;
}

/**
 * The rows that draw the same picture as all of them: those in the window with one more at each
 * side, and where they are far more than pixels, of every pixel column the first, the last and each
 * line's least, largest and one missing value.
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

/** Where a pixel column begins, on the axis. */
function edgeOf({ low, high, log, columns }: Window, column: number): number {
  const part = column / columns;
  return log ? low * (high / low) ** part : low + (high - low) * part;
}

/** What is kept of the rows from `from` to before `to`, ascending. */
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
