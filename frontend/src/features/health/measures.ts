import type { TokenSum } from '../../core/store/token_sums';

/** One number that tells of a head's attention. */
export interface Measure {
  readonly name: string;
  /** What the numbers are counted in. */
  readonly unit: string;
  /** How the tokens of a row become one number. */
  readonly sum: TokenSum;
  /** What it tells, in a sentence. */
  readonly text: string;
}

/** By the name of the point. */
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
