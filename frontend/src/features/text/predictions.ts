import type { Softmax } from '../../core/store/softmax';
import type { TopKFrame } from './frame';
import { bestOf, type Ranked } from './topk_view';

/** How a token's true successor stands in what the model predicts after the token. */
export interface Standing {
  /** Id of the true next token; -1 where it was not captured. */
  readonly next: number;
  /** Its rank from 0; -1: not among the k; null: the next token is not known. */
  readonly rank: number | null;
}

type Predicted = Pick<TopKFrame, 'map' | 'ids' | 'tokens' | 'softmax'>;

/** One for each token of the row; null without token ids. The record's target counts first. */
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
  /** Tokens whose successor is known. */
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
 * How well each token was predicted, in nats: the loss of the token before it. NaN where it is not
 * known, as of the first token.
 */
export function lossesOf({ loss }: Softmax): Float64Array {
  return loss.map((_, col) => (col === 0 ? Number.NaN : loss[col - 1]));
}

/** The mean loss of the tokens whose target is known; NaN: of none. */
export function meanLossOf({ loss }: Softmax): number {
  const known = loss.filter((nats) => !Number.isNaN(nats));
  return known.reduce((sum, nats) => sum + nats, 0) / known.length;
}

export interface Prediction extends Ranked {
  /** Probability over the probability of the best: exact, whatever was not captured. */
  readonly ratio: number;
  /**
   * Bounds of the probability. With the log-sum-exp both are the probability; without it the columns
   * beyond the k hold at most the k-th number each.
   */
  readonly least: number;
  readonly most: number;
}

/** The k best next tokens after one, with what is known of their probabilities. */
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
