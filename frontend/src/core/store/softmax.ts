import { type Floats, linesToFloats } from '../../protocol/numbers';
import type { TensorRecord } from '../../protocol/record';

/** The numbers that `topk`, for scores over the vocabulary, adds about each token's softmax. */
export interface Softmax {
  readonly logSumExp: Float64Array<ArrayBuffer>;
  /** In nats. */
  readonly entropy: Float64Array<ArrayBuffer>;
  /** The negative logarithm of the target's probability, in nats; NaN if the target is not known. */
  readonly loss: Float64Array<ArrayBuffer>;
  /** The token that the model should predict; -1 if not known. */
  readonly target: Int32Array<ArrayBuffer>;
}

const kNumbers = 4;

/**
 * Reads the softmax of `cols` tokens in one row of a record with the shape [2 + ⌈4/k⌉, rows, tokens, k].
 * Null for a record of an earlier version, which has two planes.
 */
export function softmaxOf(
  values: Floats,
  shape: readonly number[],
  row: number,
  cols: number,
): Softmax | null {
  const [planes, rows, tokens, k] = shape;
  if (shape.length !== 4 || planes < 2 + Math.ceil(kNumbers / k)) return null;
  const numbers = Array.from({ length: kNumbers }, (_, j) => {
    const plane = 2 + Math.floor(j / k);
    const start = (plane * rows + row) * tokens * k + (j % k);
    return Float64Array.from({ length: cols }, (__, col) => values[start + col * k]);
  });
  const [logSumExp, entropy, loss, target] = numbers;
  return { logSumExp, entropy, loss, target: Int32Array.from(target) };
}

/** The largest score of one token, and its softmax numbers. */
export function softmaxAt(
  record: TensorRecord,
  row: number,
  col: number,
):
  | {
      readonly bestScore: number;
      readonly logSumExp: number;
      readonly entropy: number;
      readonly loss: number;
    }
  | undefined {
  const [planes, rows, tokens, k] = record.header.shape;
  const kept = 2 + Math.ceil(kNumbers / k);
  if (record.header.shape.length !== 4 || planes < kept || col >= tokens) return undefined;
  const line = (plane: number): Floats | undefined =>
    linesToFloats(record, (plane * rows + row) * tokens + col, 1);
  const [bestScore] = line(0) ?? [];
  const numbers = Array.from({ length: kept - 2 }, (_, i) => [...(line(2 + i) ?? [])]).flat();
  const [logSumExp, entropy, loss] = numbers;
  return { bestScore, logSumExp, entropy, loss };
}

export function buffersOfSoftmax(softmax: Softmax | null): readonly ArrayBuffer[] {
  if (softmax === null) return [];
  const { logSumExp, entropy, loss, target } = softmax;
  return [logSumExp.buffer, entropy.buffer, loss.buffer, target.buffer];
}

/** The largest scores of one token, with its log-sum-exp. */
export interface Listed {
  readonly ids: ArrayLike<number>;
  readonly scores: ArrayLike<number>;
  readonly logSumExp: number;
}

export interface Divergence {
  /** Kullback-Leibler divergence of A from B, in nats. */
  readonly nats: number;
  /** False if `nats` is only a lower bound of the divergence over the whole vocabulary. */
  readonly isExact: boolean;
}

// A remaining probability below this limit is a rounding error of f32 scores.
const kLeastRest = 1e-7;

/**
 * KL(A‖B) over the tokens in both lists, with all other tokens as one outcome. It is exact if the lists
 * contain the whole vocabulary; otherwise it is a lower bound of the divergence over the vocabulary.
 */
export function divergenceOf(a: Listed, b: Listed, vocabulary: number): Divergence {
  const scoresOfB = new Map(Array.from(b.ids, (id, i) => [id, b.scores[i]]));
  let nats = 0;
  let shared = 0;
  let [restOfA, restOfB] = [1, 1];
  Array.from(a.ids).forEach((id, i) => {
    const scoreOfB = scoresOfB.get(id);
    if (scoreOfB === undefined) return;
    const logA = a.scores[i] - a.logSumExp;
    const logB = scoreOfB - b.logSumExp;
    nats += Math.exp(logA) * (logA - logB);
    restOfA -= Math.exp(logA);
    restOfB -= Math.exp(logB);
    shared += 1;
  });
  const isExact = shared >= vocabulary;
  if (!isExact && restOfA > kLeastRest) {
    nats += restOfA * Math.log(restOfA / Math.max(restOfB, kLeastRest));
  }
  // NaN stays NaN.
  return { nats: nats < 0 ? 0 : nats, isExact };
}
