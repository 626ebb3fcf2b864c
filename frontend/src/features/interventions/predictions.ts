import { toFloats, toIntegers } from '../../protocol/numbers';
import { kInputTokensFlag, type TensorRecord } from '../../protocol/record';

/** One text of a preview, with the predictions after each of its tokens, without and with the program. */
export interface PreviewText {
  /** 0: the evaluation batch. */
  readonly promptSet: number;
  readonly row: number;
  /** The number of tokens. `tokens` has their ids; null if they were not captured. */
  readonly count: number;
  readonly tokens: Int32Array | null;
  readonly off: Side;
  readonly on: Side;
  /** Kullback-Leibler divergence of on from off after each token, in nats. */
  readonly divergence: Float64Array;
  /** The whole vocabulary was captured: a divergence is exact. Else it is a lower bound. */
  readonly isExact: boolean;
}

/** The most likely next tokens after each token of one text, the most likely first. */
export interface Side {
  readonly k: number;
  readonly ids: Int32Array;
  readonly probabilities: Float64Array;
  /** In nats; NaN if the true next token is not known. */
  readonly loss: Float64Array;
  readonly target: Int32Array;
}

/** A possible next token. A probability that was not captured is at most `offMost` or `onMost`. */
export interface Outcome {
  readonly id: number;
  readonly off: number | null;
  readonly on: number | null;
  readonly offMost: number;
  readonly onMost: number;
}

type Records = readonly TensorRecord[];

/** The numbers of a token's softmax: log-sum-exp, entropy, loss, target (docs/protocol.md). */
const kNumbers = 4;

/** The texts with predictions on both sides; the evaluation batch comes first. */
export function previewTexts(off: Records, on: Records, logits: number): readonly PreviewText[] {
  const passes = off.filter(({ header }) => header.point === logits && header.shape.length === 4);
  const texts = passes.flatMap((best) => {
    const [before, after] = [passOf(off, best, logits), passOf(on, best, logits)];
    if (before === null || after === null) return [];
    const rows = Array.from({ length: best.header.shape[1] }, (_, row) => row);
    return rows.flatMap((row) => textOf(before, after, row) ?? []);
  });
  return texts.sort((a, b) => a.promptSet - b.promptSet || a.row - b.row);
}

/** The records of one forward: `topk`, and all scores and the tokens if they were captured. */
interface Pass {
  readonly best: TensorRecord;
  readonly scores: TensorRecord | undefined;
  readonly tokens: TensorRecord | undefined;
}

function passOf(records: Records, of: TensorRecord, logits: number): Pass | null {
  const { promptSet, firstRow, shape } = of.header;
  const find = (point: number, dims: number): TensorRecord | undefined =>
    records.find(
      ({ header }) =>
        header.point === point &&
        header.promptSet === promptSet &&
        header.firstRow === firstRow &&
        header.shape.length === dims,
    );
  const best = find(logits, 4);
  if (best?.header.shape.join() !== shape.join()) return null;
  return { best, scores: find(logits, 3), tokens: find(kInputTokensFlag, 3) };
}

function textOf(off: Pass, on: Pass, row: number): PreviewText | null {
  const [offSide, onSide] = [sideOf(off, row), sideOf(on, row)];
  if (offSide === null || onSide === null) return null;
  const { promptSet, firstRow, features } = off.best.header;
  const count = lengthOf(offSide, promptSet);
  const isExact = offSide.k >= features && onSide.k >= features;
  const divergence = Float64Array.from({ length: count }, (_, at) =>
    divergenceAt(offSide, onSide, at, isExact),
  );
  return {
    ...{ promptSet, row: firstRow + row, count, divergence, isExact },
    ...{ tokens: idsOf(off.tokens, row, count), off: offSide, on: onSide },
  };
}

/** The length without padding. From a prompt's last token on, there is no target. */
function lengthOf({ target }: Side, promptSet: number): number {
  if (promptSet === 0) return target.length;
  const end = target.findIndex((id) => id < 0);
  return end < 0 ? target.length : end + 1;
}

function sideOf({ best, scores }: Pass, row: number): Side | null {
  const [planes, rows, tokens, k] = best.header.shape;
  const values = toFloats(best);
  if (values === undefined || planes !== 2 + Math.ceil(kNumbers / k)) return null;
  const at = (plane: number, token: number, place: number): number =>
    values[((plane * rows + row) * tokens + token) * k + place];
  const softmax = (j: number): Float64Array =>
    Float64Array.from({ length: tokens }, (_, token) => at(2 + Math.floor(j / k), token, j % k));
  const about = { loss: softmax(2), target: Int32Array.from(softmax(3)) };
  const logSums = softmax(0);
  const all = scores === undefined ? undefined : allOf(scores, row, logSums);
  if (all !== undefined) return { ...about, ...all };
  const each = (plane: number): Float64Array =>
    Float64Array.from({ length: tokens * k }, (_, i) => at(plane, Math.floor(i / k), i % k));
  const probabilities = each(0).map((score, i) => Math.exp(score - logSums[Math.floor(i / k)]));
  return { ...about, k, ids: Int32Array.from(each(1)), probabilities };
}

/** The probabilities of the whole vocabulary, from all scores. */
function allOf(
  scores: TensorRecord,
  row: number,
  logSums: Float64Array,
): Pick<Side, 'k' | 'ids' | 'probabilities'> | undefined {
  const values = toFloats(scores);
  if (values === undefined) return undefined;
  const [, tokens, k] = scores.header.shape;
  const ids = new Int32Array(tokens * k);
  const probabilities = new Float64Array(tokens * k);
  for (let token = 0; token < tokens; token++) {
    const first = (row * tokens + token) * k;
    const order = Int32Array.from({ length: k }, (_, id) => id);
    order.sort((a, b) => values[first + b] - values[first + a]);
    ids.set(order, token * k);
    order.forEach((id, i) => {
      probabilities[token * k + i] = Math.exp(values[first + id] - logSums[token]);
    });
  }
  return { k, ids, probabilities };
}

function idsOf(record: TensorRecord | undefined, row: number, count: number): Int32Array | null {
  const values = record === undefined ? undefined : toIntegers(record);
  const [, rows, length] = record?.header.shape ?? [];
  if (values === undefined || length === undefined || row >= rows) return null;
  return values.slice(row * length, row * length + Math.min(count, length));
}

function listOf({ k, ids, probabilities }: Side, at: number): ReadonlyMap<number, number> {
  return new Map(
    Array.from({ length: k }, (_, i) => [ids[at * k + i], probabilities[at * k + i]] as const),
  );
}

/**
 * Σ p ln(p/q) over the tokens that both sides list, with all other tokens as one outcome. It is at
 * most the sum over the whole vocabulary, and equal to it if the whole vocabulary is listed.
 */
export function divergenceAt(off: Side, on: Side, at: number, isExact: boolean): number {
  const others = listOf(on, at);
  let [sum, restOff, restOn] = [0, 1, 1];
  for (const [id, p] of listOf(off, at)) {
    const q = others.get(id);
    if (q === undefined) continue;
    sum += term(p, q);
    restOff -= p;
    restOn -= q;
  }
  const rest = isExact ? 0 : term(Math.max(0, restOff), Math.max(0, restOn));
  // Rounding errors can make the sum a little negative.
  return Number.isNaN(sum + rest) ? Number.NaN : Math.max(0, sum + rest);
}

/** A smaller probability counts as 0: it is within the rounding error of float32 near 1. */
const kNothing = 1e-6;

function term(p: number, q: number): number {
  if (p === 0 || (p < kNothing && q === 0)) return 0;
  return p * Math.log(p / q);
}

/** The most likely next tokens of both sides after one token. */
export function outcomesAt(
  { off, on }: PreviewText,
  at: number,
  count: number,
): readonly Outcome[] {
  const [before, after] = [listOf(off, at), listOf(on, at)];
  const first = [...[...before.keys()].slice(0, count), ...[...after.keys()].slice(0, count)];
  const [offMost, onMost] = [leastOf(off, at), leastOf(on, at)];
  const outcomes = [...new Set(first)].map((id) => ({
    ...{ id, offMost, onMost, off: before.get(id) ?? null, on: after.get(id) ?? null },
  }));
  const best = ({ off, on }: Outcome): number => Math.max(off ?? 0, on ?? 0);
  return outcomes.sort((a, b) => best(b) - best(a)).slice(0, count);
}

function leastOf({ k, probabilities }: Side, at: number): number {
  return probabilities[at * k + k - 1];
}

/** The mean without NaN; NaN if all values are NaN. */
export function meanOf(values: ArrayLike<number>, count: number): number {
  let [sum, known] = [0, 0];
  for (let i = 0; i < count; i++) {
    if (Number.isNaN(values[i])) continue;
    sum += values[i];
    known += 1;
  }
  return known === 0 ? Number.NaN : sum / known;
}

/** The token with the most changed prediction; for a prompt, the last token: the model continues there. */
export function tokenToShow({ promptSet, count, divergence }: PreviewText): number {
  if (promptSet > 0) return count - 1;
  let best = 0;
  for (let i = 1; i < count; i++) if (divergence[i] > divergence[best]) best = i;
  return best;
}
