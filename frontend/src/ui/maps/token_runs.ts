/** A piece of text at an axis, and the cell at which it begins. */
export interface TextRun {
  readonly at: number;
  readonly text: string;
}

export interface TextRuns {
  /** Every token has room for its own text. */
  readonly each: boolean;
  readonly runs: readonly TextRun[];
}

/**
 * The tokens of an axis as a text that is readable at any zoom. If all tokens have room, each is below
 * its cell. Otherwise, every `stride` cells there is the text from this cell on, as far as it fits.
 * Sizes are CSS pixels; `charWidth` is that of the fixed-width font.
 */
export function textRuns(
  texts: readonly string[],
  cellWidth: number,
  charWidth: number,
  stride: number,
): TextRuns {
  const longest = texts.reduce((most, text) => Math.max(most, Array.from(text).length), 0);
  if (longest * charWidth + 1 <= cellWidth) {
    return { each: true, runs: texts.map((text, at) => ({ at, text })) };
  }
  const room = Math.max(1, Math.floor((stride * cellWidth) / charWidth) - 1);
  const runs: TextRun[] = [];
  for (let at = 0; at < texts.length; at += stride) {
    const whole = texts.slice(at, at + stride).join('');
    const all = Array.from(whole.replace(/␣/g, ' '));
    const text = all.length > room ? `${all.slice(0, room - 1).join('')}…` : all.join('');
    runs.push({ at, text });
  }
  return { each: false, runs };
}

/** The smallest of 1, 2, 4, 8, 16, … that is at least `wanted`. */
export function niceStep(wanted: number): number {
  let step = 1;
  while (step < wanted) step *= 2;
  return step;
}
