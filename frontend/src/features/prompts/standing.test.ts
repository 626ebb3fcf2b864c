import { expect, test } from 'vitest';
import { bestAfter, type Predictions, ranksOf } from './standing';

// Two best next tokens for each of the last two of three tokens.
const kPredictions = {
  map: { rows: 2, cols: 2, values: Float64Array.of(5, 4, 3, 2) },
  ids: Int32Array.of(30, 7, 20, 8),
} as unknown as Predictions;

test('the rank of the true next token: known, beyond the k, of the last token, and not captured', () => {
  expect(ranksOf(kPredictions, [10, 20, 30])).toEqual([null, 0, null]);
  expect(ranksOf(kPredictions, [10, 30, 20])).toEqual([null, 1, null]);
  expect(ranksOf(kPredictions, [10, 20, 99])).toEqual([null, -1, null]);
});

test('the best next tokens after a token, best first', () => {
  expect(bestAfter(kPredictions, 3, 1)).toEqual([
    { id: 30, logit: 5 },
    { id: 20, logit: 3 },
  ]);
  expect(bestAfter(kPredictions, 3, 2)[0]).toEqual({ id: 7, logit: 4 });
  expect(bestAfter(kPredictions, 3, 0)).toEqual([]);
});
