import { expect, test } from 'vitest';
import { statsOf } from '../../core/store/map_data';
import { lossesOf, meanLossOf, predictionsOf, standingsOf, tallyOf } from './predictions';

/** Two ranks of three tokens. */
function frame(): Parameters<typeof standingsOf>[0] & { readonly features: number } {
  const values = Float32Array.from([3, 2, 1, 2, 2, 0]);
  const present = Uint8Array.from([1, 1]);
  const map = { rows: 2, cols: 3, values, present, stats: statsOf(values, present, 3) };
  return {
    map,
    ids: Int32Array.from([66, 9, 7, 65, 67, 8]),
    tokens: Int32Array.from([65, 66, 67]),
    features: 4,
    softmax: null,
  };
}

test('the rank of the true next token; the last one has none that is known', () => {
  const standings = standingsOf(frame());
  expect(standings).toEqual([
    { next: 66, rank: 0 },
    { next: 67, rank: 1 },
    { next: -1, rank: null },
  ]);
  expect(tallyOf(standings ?? [])).toEqual({ known: 2, first: 1, among: 2 });
});

test('a token beyond the k, and one that was not captured', () => {
  const tokens = Int32Array.from([65, 90, -1]);
  expect(standingsOf({ ...frame(), tokens })).toEqual([
    { next: 90, rank: -1 },
    { next: -1, rank: null },
    { next: -1, rank: null },
  ]);
  expect(standingsOf({ ...frame(), tokens: null })).toBeNull();
});

test('probabilities lie between what the rest may and may not take', () => {
  const [best, second] = predictionsOf(frame(), 0);
  const [a, b] = [1, Math.exp(-1)];
  expect(best).toMatchObject({ id: 66, value: 3, ratio: 1 });
  expect(best.most).toBeCloseTo(a / (a + b), 12);
  expect(best.least).toBeCloseTo(a / (a + b + 2 * b), 12);
  expect(second.ratio).toBeCloseTo(b, 12);
  // If every column is among the k, the probability is exact.
  const whole = predictionsOf({ ...frame(), features: 2 }, 0);
  expect(whole[0].least).toBe(whole[0].most);
});

test('with the log-sum-exp a probability is exact, and the target of the last token is known', () => {
  const softmax = {
    logSumExp: Float64Array.of(3.5, 3, 2),
    entropy: Float64Array.of(1, 1, 1),
    loss: Float64Array.of(0.5, 1, Number.NaN),
    target: Int32Array.of(66, 67, 8),
  };
  const exact = { ...frame(), softmax };
  const [best, second] = predictionsOf(exact, 0);
  expect(best.least).toBe(best.most);
  expect(best.most).toBeCloseTo(Math.exp(3 - 3.5), 12);
  expect(second.most).toBeCloseTo(Math.exp(2 - 3.5), 12);
  expect(standingsOf(exact)?.[2]).toEqual({ next: 8, rank: 1 });
  // The loss of a token is at the position before it.
  expect([...lossesOf(softmax)]).toEqual([Number.NaN, 0.5, 1]);
  expect(meanLossOf(softmax)).toBe(0.75);
});
