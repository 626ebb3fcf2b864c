/** The trainer's `topk` lists no more columns of a token. */
export const kMostListed = 256;

/** The preset that lists every token. */
export const kExactPreset = 'Predictions of the whole vocabulary';

/** What is said of a divergence that is a lower bound, and how it becomes exact. */
export function boundText(listed: number, vocabulary: number): string {
  const remedy =
    vocabulary <= kMostListed
      ? `the Plan preset “${kExactPreset}” makes it exact`
      : `it is exact for vocabularies of at most ${kMostListed} tokens`;
  return `a lower bound, from ${listed} of ${vocabulary} tokens: ${remedy}`;
}
