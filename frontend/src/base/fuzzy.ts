/**
 * The score of a text for a query: a higher score is a better match, undefined is no match. The
 * text must contain every word of the query: as a whole word, at the start of a word, inside a
 * word, or letter by letter.
 */
export function fuzzyScore(query: string, text: string): number | undefined {
  const lower = text.toLowerCase();
  let score = 0;
  for (const word of query.toLowerCase().split(/\s+/)) {
    if (word === '') continue;
    const of = wordScore(word, lower);
    if (of === undefined) return undefined;
    score += of;
  }
  return score;
}

function wordScore(word: string, text: string): number | undefined {
  const isWordAt = (at: number): boolean =>
    at < 0 || at >= text.length || !/[\p{L}\p{N}]/u.test(text[at]);
  let best: number | undefined;
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    const starts = isWordAt(at - 1) ? 2 : 0;
    const whole = starts > 0 && isWordAt(at + word.length) ? 2 : 0;
    best = Math.max(best ?? 0, 4 + starts + whole);
  }
  return best ?? lettersScore(word, text);
}

/** A score from 0 to 1 if the text has all letters in order: higher if they are closer together. */
function lettersScore(word: string, text: string): number | undefined {
  let at = -1;
  let first = -1;
  for (const letter of word) {
    at = text.indexOf(letter, at + 1);
    if (at < 0) return undefined;
    if (first < 0) first = at;
  }
  return word.length / (at - first + 1);
}

/** The items that match, sorted by score, the best first; items of equal score keep their order. */
export function fuzzyFilter<T>(
  query: string,
  all: readonly T[],
  textOf: (item: T) => string,
): readonly T[] {
  return all
    .map((item) => ({ item, score: fuzzyScore(query, textOf(item)) }))
    .filter((each): each is { item: T; score: number } => each.score !== undefined)
    .sort((a, b) => b.score - a.score)
    .map(({ item }) => item);
}
