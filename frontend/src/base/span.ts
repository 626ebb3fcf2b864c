/** A range of cells of an axis, from `first` to before `end`. */
export type Cells = readonly [first: number, end: number];
/** The part of an axis that a map shows; null means the whole axis. */
export type Span = Cells | null;

/** The cells to show of an axis of `count` cells; all cells if the span is beyond the axis. */
export function cellsOf(span: Span, count: number): Cells {
  if (span === null || span[0] >= count) return [0, count];
  return [span[0], Math.min(span[1], count)];
}

/** The span of these cells; null if they are the whole axis. */
export function spanOf([first, end]: Cells, count: number): Span {
  return first <= 0 && end >= count ? null : [Math.max(0, first), Math.min(count, end)];
}

/**
 * Zooms to `factor` times as many cells. The position `about`, in cells, keeps its place on the
 * screen.
 */
export function zoomedCells(cells: Cells, count: number, factor: number, about: number): Cells {
  const size = cells[1] - cells[0];
  const wish = factor < 1 ? Math.floor(size * factor) : Math.ceil(size * factor);
  const wanted = Math.min(count, Math.max(1, wish));
  const share = size === 0 ? 0 : (about - cells[0]) / size;
  return movedTo(Math.round(about - share * wanted), wanted, count);
}

/** Moves the range by `by` cells; the range stays inside of the axis. */
export function movedCells([first, end]: Cells, count: number, by: number): Cells {
  return movedTo(first + by, end - first, count);
}

/** Moves the range by the fewest cells that show the cell `at`. */
export function cellsWith([first, end]: Cells, at: number): Cells {
  if (at < first) return [at, at + end - first];
  return at >= end ? [at + 1 - (end - first), at + 1] : [first, end];
}

function movedTo(first: number, size: number, count: number): Cells {
  const start = Math.max(0, Math.min(count - size, first));
  return [start, start + size];
}

/**
 * Parses a text such as "10-20": from the first number to before the second number; undefined if
 * the text is not a span.
 */
export function spanOfText(text: string): Cells | undefined {
  const parts = /^(\d{1,9})-(\d{1,9})$/.exec(text);
  const [first, end] = [Number(parts?.[1]), Number(parts?.[2])];
  return first < end ? [first, end] : undefined;
}
