import { expect, test } from 'vitest';
import type { TensorRecord } from '../../protocol/record';
import { makeRecord } from '../../core/store/test_records';
import { meanOf, outcomesAt, type PreviewText, previewTexts, tokenToShow } from './predictions';

const kLogits = 52;

function logSum(scores: readonly number[]): number {
  return Math.log(scores.reduce((sum, score) => sum + Math.exp(score), 0));
}

interface Of {
  readonly promptSet?: number;
  readonly firstRow?: number;
}

/** The record of `topk` for the scores of one row: docs/protocol.md. */
function topk(
  scores: readonly (readonly number[])[],
  targets: readonly number[],
  k: number,
  of: Of = {},
): TensorRecord {
  const planes = 2 + Math.ceil(4 / k);
  const values = new Float32Array(planes * scores.length * k).fill(Number.NaN);
  scores.forEach((all, token) => {
    const order = all.map((_, id) => id).sort((a, b) => all[b] - all[a]);
    for (let i = 0; i < k; i++) {
      values[token * k + i] = all[order[i]];
      values[(scores.length + token) * k + i] = order[i];
    }
    const target = targets[token];
    const lse = logSum(all);
    const numbers = [lse, 0, target < 0 ? Number.NaN : lse - all[target], target];
    numbers.forEach((number, j) => {
      const plane = 2 + Math.floor(j / k);
      values[(plane * scores.length + token) * k + (j % k)] = number;
    });
  });
  const shape = [planes, 1, scores.length, k];
  const about = { point: kLogits, layer: 0, features: scores[0].length, shape, ...of };
  return makeRecord(about, values);
}

function all(scores: readonly (readonly number[])[], of: Of = {}): TensorRecord {
  const shape = [1, scores.length, scores[0].length];
  const about = { point: kLogits, layer: 0, features: scores[0].length, shape, ...of };
  return makeRecord(about, Float32Array.from(scores.flat()));
}

function tokens(ids: readonly number[], of: Of = {}): TensorRecord {
  const values = Int32Array.from([...ids, ...ids.map((_, i) => i)]);
  return makeRecord({ point: 8, layer: 0, shape: [2, 1, ids.length], ...of }, values);
}

/** Over the whole vocabulary. */
function divergence(off: readonly number[], on: readonly number[]): number {
  const [a, b] = [logSum(off), logSum(on)];
  return off.reduce((sum, x, i) => sum + Math.exp(x - a) * (x - a - (on[i] - b)), 0);
}

const kOff = [
  [2, 1, 0, -1],
  [0, 3, 0, 1],
];
const kOn = [
  [2, 1, 0, -1],
  [3, 0, 0, 1],
];

function only(texts: readonly PreviewText[]): PreviewText {
  expect(texts).toHaveLength(1);
  return texts[0];
}

test('all scores: probabilities and KL are those of the whole vocabulary', () => {
  const off = [topk(kOff, [1, 2], 1), all(kOff), tokens([7, 1])];
  const on = [topk(kOn, [1, 2], 1), all(kOn), tokens([7, 1])];
  const text = only(previewTexts(off, on, kLogits));
  expect(text).toMatchObject({ promptSet: 0, row: 0, count: 2, isExact: true });
  expect([...(text.tokens ?? [])]).toEqual([7, 1]);
  expect(text.divergence[0]).toBe(0);
  expect(text.divergence[1]).toBeCloseTo(divergence(kOff[1], kOn[1]), 6);
  const [first, second] = outcomesAt(text, 1, 2);
  expect([first.id, second.id].sort()).toEqual([0, 1]);
  const share = Math.exp(3 - logSum(kOff[1]));
  expect(outcomesAt(text, 1, 4).find(({ id }) => id === 1)?.off).toBeCloseTo(share, 6);
  expect(text.off.loss[1]).toBeCloseTo(logSum(kOff[1]) - 0, 6);
  expect(tokenToShow(text)).toBe(1);
});

test('the k best: KL over what both list, all others as one outcome, never more than the whole', () => {
  const wide = [[5, 4, 3, 0.1, 0.2, 0.3, 0.4]];
  const moved = [[4, 5, 0, 0.1, 3, 0.3, 0.4]];
  const text = only(previewTexts([topk(wide, [0], 3)], [topk(moved, [0], 3)], kLogits));
  expect(text.isExact).toBe(false);
  expect(text.tokens).toBeNull();
  const [a, b] = [logSum(wide[0]), logSum(moved[0])];
  const p = [0, 1].map((id) => Math.exp(wide[0][id] - a));
  const q = [0, 1].map((id) => Math.exp(moved[0][id] - b));
  const rest = [1 - p[0] - p[1], 1 - q[0] - q[1]];
  const bound = [...p.map((x, i) => [x, q[i]]), rest].reduce(
    (sum, [x, y]) => sum + x * Math.log(x / y),
    0,
  );
  expect(text.divergence[0]).toBeCloseTo(bound, 5);
  expect(text.divergence[0]).toBeLessThan(divergence(wide[0], moved[0]));
  // For token 2, only `off` is known; `on` is at most the smallest captured probability.
  const third = outcomesAt(text, 0, 4).find(({ id }) => id === 2);
  expect(third?.on).toBeNull();
  expect(third?.onMost).toBeCloseTo(Math.exp(3 - b), 6);
});

test('prompts end where their targets end, and come in micro-batches', () => {
  const scores = [...kOff, ...kOff];
  const prompt = (firstRow: number, targets: readonly number[]): TensorRecord[] => [
    topk(scores, targets, 2, { promptSet: 2, firstRow }),
    tokens([1, 2, 3, 0], { promptSet: 2, firstRow }),
  ];
  const records = [
    ...prompt(0, [2, 3, -1, -1]),
    ...prompt(1, [-1, -1, -1, -1]),
    topk(kOff, [1, 2], 2),
  ];
  const texts = previewTexts(records, records, kLogits);
  expect(texts.map(({ promptSet, row, count }) => [promptSet, row, count])).toEqual([
    [0, 0, 2],
    [2, 0, 3],
    [2, 1, 1],
  ]);
  expect([...(texts[1].tokens ?? [])]).toEqual([1, 2, 3]);
  expect(tokenToShow(texts[1])).toBe(2);
  expect(meanOf(texts[1].off.loss, 3)).toBeCloseTo(
    (texts[1].off.loss[0] + texts[1].off.loss[1]) / 2,
  );
});

test('what one side lacks is not shown', () => {
  const record = topk(kOff, [1, 2], 2);
  expect(previewTexts([record], [], kLogits)).toEqual([]);
  expect(previewTexts([record], [topk(kOff, [1, 2], 3)], kLogits)).toEqual([]);
  expect(previewTexts([record], [record], 7)).toEqual([]);
});
