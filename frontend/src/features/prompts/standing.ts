import type { ViewFrame } from '../../core/store/frames';

export type Predictions = Extract<ViewFrame, { readonly kind: 'topk' }>;

/** The rank of the true next token after each token, from 0; -1: not among the k; null: the last token. */
export function ranksOf({ map, ids }: Predictions, tokens: readonly number[]): (number | null)[] {
  return tokens.map((_, col) => {
    const next = tokens[col + 1];
    const from = col - (tokens.length - map.cols);
    if (next === undefined || from < 0) return null;
    for (let rank = 0; rank < map.rows; rank++) {
      if (ids[rank * map.cols + from] === next) return rank;
    }
    return -1;
  });
}

/** The best next tokens after a token, with their logits, best first. */
export function bestAfter(
  { map, ids }: Predictions,
  tokens: number,
  col: number,
): { readonly id: number; readonly logit: number }[] {
  const from = col - (tokens - map.cols);
  if (from < 0 || from >= map.cols) return [];
  return Array.from({ length: map.rows }, (_, rank) => ({
    id: ids[rank * map.cols + from],
    logit: map.values[rank * map.cols + from],
  }));
}
