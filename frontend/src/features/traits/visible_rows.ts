/** A list of rows of equal height that scrolls; all in CSS pixels. */
export interface ScrollView {
  readonly height: number;
  readonly row: number;
  /** The scroll position. */
  readonly top: number;
}

/** The rows from `first` to before `end`, and the heights of the rows before and after them. */
export interface VisibleRows {
  readonly first: number;
  readonly end: number;
  readonly before: number;
  readonly after: number;
}

// Rows beyond each edge, so that a small scroll shows no gap before the next drawing.
const kMargin = 8;

/** The rows of a long list that need elements. */
export function visibleRows(count: number, { height, row, top }: ScrollView): VisibleRows {
  const onScreen = Math.ceil(height / row);
  const furthest = Math.max(0, count - onScreen);
  const start = Math.min(Math.floor(top / row), furthest);
  const first = Math.max(0, start - kMargin);
  const end = Math.min(count, start + onScreen + kMargin);
  return { first, end, before: first * row, after: (count - end) * row };
}

/** The scroll position nearest to the present one at which the row is visible. */
export function scrollTo(index: number, { height, row, top }: ScrollView): number {
  const [above, below] = [index * row, (index + 1) * row - height];
  return Math.max(0, Math.min(above, Math.max(below, top)));
}
