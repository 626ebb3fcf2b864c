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
    text: 'Entropy near 0: the head looks at one token. A fall in all layers goes before a diverging loss.',
  },
  'attention.largest_score': {
    name: 'largest score',
    unit: 'before the softmax, largest of the queries',
    sum: 'largest',
    text: 'The largest score before the softmax. Scores that grow without end make training unstable.',
  },
  'attention.first_token_share': {
    name: 'share of the first token',
    unit: 'probability, mean over queries',
    sum: 'mean',
    text: 'The attention that goes to the first token: a head that does nothing rests there.',
  },
};

export const kMeasureNames: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(kMeasures).map(([point, { name }]) => [point, name]),
);
