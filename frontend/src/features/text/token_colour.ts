/** Share of the accent in the ground of a token: the more, the better the rank. */
export function washOfRank(rank: number, ranks: number): string {
  const strength = ranks <= 1 ? 1 : 1 - Math.log(rank + 1) / Math.log(ranks + 1);
  return `${Math.round(8 + 42 * strength)}%`;
}

/** The loss of a guess among all tokens of a vocabulary, in nats: the strongest colour. */
export function guessLoss(vocabulary: number): number {
  return Math.log(Math.max(2, vocabulary));
}

/** Share of the warning colour in the ground of a token: the more, the larger the loss. */
export function washOfLoss(nats: number, vocabulary: number): string {
  return `${Math.round(60 * Math.min(1, Math.max(0, nats / guessLoss(vocabulary))))}%`;
}
