import type { TokenSum } from '../../core/store/token_sums';

/** A number that describes a head's attention. */
export interface Measure {
  readonly name: string;
  /** The unit, and the reduction over the queries. */
  readonly unit: string;
  /** The reduction over the tokens of a row. */
  readonly sum: TokenSum;
  /** A short explanation. */
  readonly text: string;
}

/** The keys are names of points. */
export const kMeasures: Readonly<Record<string, Measure>> = {
  'attention.entropy': {
    name: 'entropy',
    unit: 'nats, mean over queries',
    sum: 'mean',
    text: 'Entropy near 0: the head looks at one token. If it falls in all layers, the loss often diverges soon after.',
  },
  'attention.largest_score': {
    name: 'largest score',
    unit: 'before the softmax, largest of the queries',
    sum: 'largest',
    text: 'The largest score before the softmax. Scores that keep growing make the training unstable.',
  },
  'attention.first_token_share': {
    name: 'share of the first token',
    unit: 'probability, mean over queries',
    sum: 'mean',
    text: 'The share of the attention on the first token. A head without effect puts its attention there.',
  },
};

export const kMeasureNames: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(kMeasures).map(([point, { name }]) => [point, name]),
);
