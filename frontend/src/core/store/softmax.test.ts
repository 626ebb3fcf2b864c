import { expect, test } from 'vitest';
import { divergenceOf, type Listed, softmaxOf } from './softmax';

// Scores over six tokens, and their log-sum-exp and divergences, computed with NumPy in float64.
const kA = [
  [0.00246, 0.597491, -0.548276, -1.781184, -0.909342, -1.983293],
  [0.120287, 2.68043, -0.984413, -1.24095, 0.979684, 0.713774],
];
const kB = [
  [-0.948151, -0.047278, -1.469143, -1.898729, -1.543065, -1.847661],
  [0.198663, 2.586965, -2.242793, -1.510296, 0.955434, 0.770429],
];
const kSumsOfA = [1.4126451800355553, 3.0486686450569076];
const kSumsOfB = [0.7383551404065366, 2.975358415460887];

/** The k largest scores, as in a record of `topk`. */
function listed(scores: readonly number[], logSumExp: number, k: number): Listed {
  const ids = scores.map((_, id) => id).sort((a, b) => scores[b] - scores[a]);
  const best = ids.slice(0, k);
  return { ids: best, scores: best.map((id) => scores[id]), logSumExp };
}

test('a divergence is exact over the whole vocabulary, and never larger over a part of it', () => {
  const of = (token: number, k: number): ReturnType<typeof divergenceOf> =>
    divergenceOf(listed(kA[token], kSumsOfA[token], k), listed(kB[token], kSumsOfB[token], k), 6);
  expect(of(0, 6).isExact).toBe(true);
  expect(of(0, 6).nats).toBeCloseTo(0.03513157403328075, 12);
  expect(of(1, 6).nats).toBeCloseTo(0.010739795850764618, 12);
  expect(of(0, 3).isExact).toBe(false);
  expect(of(0, 3).nats).toBeCloseTo(0.025812724101208967, 12);
  expect(of(1, 3).nats).toBeCloseTo(0.0013696413468977072, 12);
});

test('lists without a common token tell nothing, and of equal ones nothing diverges', () => {
  const a = { ids: [1], scores: [2], logSumExp: 3 };
  expect(divergenceOf(a, { ids: [2], scores: [2], logSumExp: 3 }, 9).nats).toBe(0);
  expect(divergenceOf(a, a, 9)).toEqual({ nats: 0, isExact: false });
  const unknown = { ...a, logSumExp: Number.NaN };
  expect(divergenceOf(a, unknown, 9).nats).toBeNaN();
});

test('the softmax stands in the planes behind the columns, whatever k is', () => {
  // Two rows of two tokens; number j of a token is 100 * row + 10 * token + j.
  const at = (row: number, token: number, j: number): number => 100 * row + 10 * token + j;
  for (const k of [1, 3, 4, 10]) {
    const planes = 2 + Math.ceil(4 / k);
    const values = new Float32Array(planes * 2 * 2 * k).fill(Number.NaN);
    for (const row of [0, 1]) {
      for (const token of [0, 1]) {
        for (let j = 0; j < 4; j++) {
          const plane = 2 + Math.floor(j / k);
          values[((plane * 2 + row) * 2 + token) * k + (j % k)] = at(row, token, j);
        }
      }
    }
    const softmax = softmaxOf(values, [planes, 2, 2, k], 1, 2);
    expect([...(softmax?.logSumExp ?? [])]).toEqual([100, 110]);
    expect([...(softmax?.entropy ?? [])]).toEqual([101, 111]);
    expect([...(softmax?.loss ?? [])]).toEqual([102, 112]);
    expect([...(softmax?.target ?? [])]).toEqual([103, 113]);
  }
  expect(softmaxOf(new Float32Array(40), [2, 1, 2, 10], 0, 2)).toBeNull();
});
