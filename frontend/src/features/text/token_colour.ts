/** The share of the accent colour in a token's background. It is larger for a better rank. */
export function washOfRank(rank: number, ranks: number): string {
  const strength = ranks <= 1 ? 1 : 1 - Math.log(rank + 1) / Math.log(ranks + 1);
  return `${Math.round(8 + 42 * strength)}%`;
}

/** The loss of a uniform prediction over a vocabulary, in nats. It has the strongest colour. */
export function guessLoss(vocabulary: number): number {
  return Math.log(Math.max(2, vocabulary));
}

/** The share of the warning colour in a token's background. It is larger for a larger loss. */
export function washOfLoss(nats: number, vocabulary: number): string {
  return `${Math.round(60 * Math.min(1, Math.max(0, nats / guessLoss(vocabulary))))}%`;
}
