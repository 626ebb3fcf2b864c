import type { Mark } from '../charts/marks';

/** A mark of an event at the step of a column, or between this column and the column before. */
export interface ColumnMark extends Mark {
  readonly col: number;
}

/** The columns of the marks in a map of these steps (ascending); marks outside of them are left out. */
export function columnMarks(
  marks: readonly Mark[],
  steps: readonly number[],
): readonly ColumnMark[] {
  const [first, last] = [steps[0] ?? Infinity, steps.at(-1) ?? -Infinity];
  return marks
    .filter(({ step }) => step >= first && step <= last)
    .map((mark) => ({ ...mark, col: steps.findIndex((step) => step >= mark.step) }));
}

/** Draws a line with a flag at the left edge of each mark's column. */
export function drawColumnMarks(
  context: CanvasRenderingContext2D,
  marks: readonly ColumnMark[],
  {
    left,
    width,
    height,
  }: { readonly left: number; readonly width: number; readonly height: number },
): void {
  for (const { col, color } of marks) {
    const x = Math.round(left + col * width);
    context.fillStyle = color;
    context.fillRect(x, 0, 1, height);
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x + 5, 3);
    context.lineTo(x, 6);
    context.fill();
  }
}
