import type { Softmax } from '../../core/store/softmax';
import type { TopKFrame } from './frame';
import { bestOf, type Ranked } from './topk_view';

/** The rank of a token's true successor in the predictions after the token. */
export interface Standing {
  /** The id of the true next token; -1 if it was not captured. */
  readonly next: number;
  /** Its rank from 0; -1: not among the k; null: the next token is not known. */
  readonly rank: number | null;
}

type Predicted = Pick<TopKFrame, 'map' | 'ids' | 'tokens' | 'softmax'>;

/** One for each token of the row; null without token ids. The record's target has priority. */
export function standingsOf(frame: Predicted): readonly Standing[] | null {
  const { tokens, ids, softmax } = frame;
  if (tokens === null) return null;
  const { rows, cols } = frame.map;
  return Array.from({ length: cols }, (_, col) => {
    const target = softmax?.target[col] ?? -1;
    const next = target >= 0 ? target : (tokens[col + 1] ?? -1);
    if (next < 0) return { next: -1, rank: null };
    let rank = -1;
    for (let row = 0; row < rows && rank < 0; row++) if (ids[row * cols + col] === next) rank = row;
    return { next, rank };
  });
}

export interface Tally {
  /** The number of tokens whose successor is known. */
  readonly known: number;
  readonly first: number;
  readonly among: number;
}

export function tallyOf(standings: readonly Standing[]): Tally {
  const known = standings.filter(({ rank }) => rank !== null);
  return {
    known: known.length,
    first: known.filter(({ rank }) => rank === 0).length,
    among: known.filter(({ rank }) => rank !== null && rank >= 0).length,
  };
}

/**
 * The loss of each token in nats. The softmax has it at the token before. NaN if it is not known, as
 * for the first token.
 */
export function lossesOf({ loss }: Softmax): Float64Array {
  return loss.map((_, col) => (col === 0 ? Number.NaN : loss[col - 1]));
}

/** The mean loss of the tokens whose target is known; NaN if no target is known. */
export function meanLossOf({ loss }: Softmax): number {
  const known = loss.filter((nats) => !Number.isNaN(nats));
  return known.reduce((sum, nats) => sum + nats, 0) / known.length;
}

export interface Prediction extends Ranked {
  /** The probability ÷ the probability of the best. It is exact, even if columns were not captured. */
  readonly ratio: number;
  /**
   * Bounds of the probability. With the log-sum-exp, both are the probability. Without it, each column
   * beyond the k has at most the k-th number.
   */
  readonly least: number;
  readonly most: number;
}

/** The k best next tokens after one token, with the bounds of their probabilities. */
export function predictionsOf(
  frame: Pick<TopKFrame, 'map' | 'ids' | 'features' | 'softmax'>,
  col: number,
): readonly Prediction[] {
  const best = bestOf(frame, col);
  const top = best[0]?.value ?? 0;
  const weights = best.map(({ value }) => Math.exp(value - top));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const others = Math.max(0, frame.features - best.length) * (weights.at(-1) ?? 0);
  const known = frame.softmax?.logSumExp[col];
  const whole = known === undefined ? undefined : Math.exp(known - top);
  return best.map((ranked, i) => ({
    ...ranked,
    ratio: weights[i],
    least: weights[i] / (whole ?? sum + others),
    most: weights[i] / (whole ?? sum),
  }));
}
