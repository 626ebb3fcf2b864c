/** Cells of an axis, from `first` to before `end`. */
export type Cells = readonly [first: number, end: number];
/** The part of an axis that a map shows; null: all of it. */
export type Span = Cells | null;

/** The cells that are shown of `count`: all of them where the span lies beyond the axis. */
export function cellsOf(span: Span, count: number): Cells {
  if (span === null || span[0] >= count) return [0, count];
  return [span[0], Math.min(span[1], count)];
}

/** The span of these cells; null where they are all of the axis. */
export function spanOf([first, end]: Cells, count: number): Span {
  return first <= 0 && end >= count ? null : [Math.max(0, first), Math.min(count, end)];
}

/** `factor` times as many cells. The place `about`, counted in cells, stays where it is. */
export function zoomedCells(cells: Cells, count: number, factor: number, about: number): Cells {
  const size = cells[1] - cells[0];
  const wish = factor < 1 ? Math.floor(size * factor) : Math.ceil(size * factor);
  const wanted = Math.min(count, Math.max(1, wish));
  const share = size === 0 ? 0 : (about - cells[0]) / size;
  return movedTo(Math.round(about - share * wanted), wanted, count);
}

/** The same number of cells, `by` cells further on, and inside of the axis. */
export function movedCells([first, end]: Cells, count: number, by: number): Cells {
  return movedTo(first + by, end - first, count);
}

/** The cells moved as little as it takes to show the cell `at`. */
export function cellsWith([first, end]: Cells, at: number): Cells {
  if (at < first) return [at, at + end - first];
  return at >= end ? [at + 1 - (end - first), at + 1] : [first, end];
}

function movedTo(first: number, size: number, count: number): Cells {
  const start = Math.max(0, Math.min(count - size, first));
  return [start, start + size];
}

/** "10-20": from the first cell to before the second number; undefined for a text that is none. */
export function spanOfText(text: string): Cells | undefined {
  const parts = /^(\d{1,9})-(\d{1,9})$/.exec(text);
  const [first, end] = [Number(parts?.[1]), Number(parts?.[2])];
  return first < end ? [first, end] : undefined;
}
