/** A parsed error of an expression: the message and the position in the text. */
export interface ExpressionError {
  readonly message: string;
  /** Line and column from 1, length in characters; null if the error has no position. */
  readonly caret: {
    readonly line: number;
    readonly column: number;
    readonly length: number;
  } | null;
}

/**
 * Parses a message such as "there is no "maen" (line 1, column 6)", with the source and a line with
 * a caret below it.
 */
export function expressionErrorOf(
  message: string,
  where: string | null | undefined,
): ExpressionError {
  const [head, ...below] = message.split('\n');
  const marks = below.findLast((line) => /^\s*\^~*\s*$/.test(line));
  const place = placeIn(head) ?? placeIn(where ?? '');
  const text = head.replace(/\s*\(line \d+, column \d+\)\s*$/, '');
  const length = Math.max(1, marks?.trim().length ?? 1);
  return { message: text, caret: place === null ? null : { ...place, length } };
}

/** The text below the field: the caret, and above it the line if the source has several lines. */
export function caretText(source: string, caret: NonNullable<ExpressionError['caret']>): string {
  return source.includes('\n') ? caretLines(source, caret) : marksOf(caret);
}

/** The line with the caret below it. */
export function caretLines(source: string, caret: NonNullable<ExpressionError['caret']>): string {
  return `${source.split('\n')[caret.line - 1] ?? ''}\n${marksOf(caret)}`;
}

/** Splits a text at the caret: the text before it, and the characters that it marks. */
export function cutAt(
  source: string,
  caret: NonNullable<ExpressionError['caret']>,
): readonly [before: string, about: string] {
  const lines = source.split('\n');
  const line = Array.from(lines[caret.line - 1] ?? '');
  const above = lines.slice(0, caret.line - 1).map((each) => `${each}\n`);
  const start = caret.column - 1;
  const before = above.join('') + line.slice(0, start).join('');
  return [before, line.slice(start, start + caret.length).join('')];
}

function marksOf({ column, length }: NonNullable<ExpressionError['caret']>): string {
  return `${' '.repeat(column - 1)}^${'~'.repeat(length - 1)}`;
}

function placeIn(text: string): { readonly line: number; readonly column: number } | null {
  const match = /line (\d+), column (\d+)/.exec(text);
  if (match === null) return null;
  const [line, column] = [Number(match[1]), Number(match[2])];
  return line < 1 || column < 1 || column > 10_000 ? null : { line, column };
}
