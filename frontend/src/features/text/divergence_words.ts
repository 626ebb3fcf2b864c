/** The trainer's `topk` lists no more columns of a token. */
export const kMaxListed = 256;

/** The preset that lists every token. */
export const kExactPreset = 'Predictions of the whole vocabulary';

/** What is said of a divergence that is a lower bound, and how it becomes exact. */
export function boundText(listed: number, vocabulary: number): string {
  const remedy =
    vocabulary <= kMaxListed
      ? `the Plan preset “${kExactPreset}” makes it exact`
      : `it is exact for vocabularies of at most ${kMaxListed} tokens`;
  return `a lower bound, from ${listed} of ${vocabulary} tokens: ${remedy}`;
}
