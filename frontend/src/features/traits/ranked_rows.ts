import type { RankedText } from './ranked_file';
import { Slices } from './slices';

export type RankedColumn = 'rank' | 'score' | 'line' | 'text';
export type Order = 'up' | 'down';

/** As in the terminal. */
const kBins = 20;

/** Indices of texts, sorted by a column. Texts without a number there come last. */
export function ordered(
  texts: readonly RankedText[],
  indices: readonly number[],
  column: RankedColumn,
  order: Order,
): readonly number[] {
  const sign = order === 'up' ? 1 : -1;
  const keys = texts.map((text) => text[column]);
  return [...indices].sort((a, b) => {
    const [first, second] = [keys[a], keys[b]];
    if (first === null || second === null) return Number(first === null) - Number(second === null);
    return first === second ? 0 : sign * (first < second ? -1 : 1);
  });
}

/**
 * The indices of the texts that contain the words, in capital or small letters; all if there are no
 * words. It works in slices of time; null if `goesOn` has stopped it.
 */
export async function matchesOf(
  texts: readonly RankedText[],
  words: string,
  goesOn: () => boolean = () => true,
): Promise<readonly number[] | null> {
  const wanted = new RegExp(words.trim().replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'), 'iu');
  const slices = new Slices();
  const found: number[] = [];
  for (const [index, { prompt, text }] of texts.entries()) {
    if (wanted.test(text) || wanted.test(prompt)) found.push(index);
    if (slices.isOver) await slices.rest();
    if (!goesOn()) return null;
  }
  return found;
}

/** The scores of some texts in bins between the smallest and the largest score. */
export interface Histogram {
  readonly bins: Float64Array;
  readonly range: readonly [low: number, high: number];
  /** The number of texts that have a score. */
  readonly scored: number;
}

export function histogramOf(texts: readonly RankedText[], indices: readonly number[]): Histogram {
  const scores = indices.flatMap((index) => texts[index].score ?? []);
  const bins = new Float64Array(kBins);
  if (scores.length === 0) return { bins, range: [0, 0], scored: 0 };
  const low = scores.reduce((least, score) => Math.min(least, score), Infinity);
  const high = scores.reduce((most, score) => Math.max(most, score), -Infinity);
  const width = (high - low) / kBins;
  for (const score of scores) {
    const bin = width > 0 ? Math.floor((score - low) / width) : 0;
    bins[Math.min(bin, kBins - 1)] += 1;
  }
  return { bins, range: [low, high], scored: scores.length };
}
