/** The largest number of columns of a token that the trainer's `topk` lists. */
export const kMaxListed = 256;

/** The name of the preset that lists every token. */
export const kExactPreset = 'Predictions of the whole vocabulary';

/** The text about a divergence that is a lower bound, and about the way to make it exact. */
export function boundText(listed: number, vocabulary: number): string {
  const remedy =
    vocabulary <= kMaxListed
      ? `the Plan preset “${kExactPreset}” makes it exact`
      : `it is exact for vocabularies of at most ${kMaxListed} tokens`;
  return `a lower bound, from ${listed} of ${vocabulary} tokens: ${remedy}`;
}
