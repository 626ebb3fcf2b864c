// Points of the synthetic run that the run names only if its plan does: what a run derives for the
// views of lens, heads, blocks and parameters, and lists of top tokens. Every number is a plain function.

import {
  type FakePoint,
  kHeads,
  kLayers,
  kPoints,
  kSequence,
  logitAt,
  tokenAt,
} from './fake_data.ts';

const kDims = ['batch', 'sequence', 'features'];

function derived(name: string, flag: number, features: number, text: string): FakePoint {
  return { name, flag, features, text, layered: true, gradient: false, dims: kDims };
}

export const kParameters = [
  'embedding.weight',
  ...Array.from({ length: kLayers }, (_, i) => `layers[${i + 1}].mlp.fc1.weight`),
];
export const kUpdateColumns = [
  ...['count', 'weight_norm', 'weight_rms', 'gradient_norm', 'gradient_rms', 'update_norm'],
  ...['update_rms', 'update_ratio'],
];

const kDerivedPoints: readonly FakePoint[] = [
  { ...derived('Embedding', 21, 256, 'input of the first layer'), layered: false },
  derived('LogitLens', 100, 256, 'what each layer would predict'),
  derived('attention.entropy', 101, kHeads, 'entropy of each head'),
  derived('mlp.contribution', 102, 1, 'norm of what the MLP adds'),
  {
    ...derived('Updates', 103, kUpdateColumns.length, 'norms of weights, gradients, updates'),
    layered: false,
    dims: ['step', 'parameters', 'features'],
  },
];

export const kDerivedPaths: Readonly<Record<string, string>> = {
  Embedding: 'embedding.output',
  LogitLens: 'layers[n].lens',
  'attention.entropy': 'layers[n].attention.entropy',
  'mlp.contribution': 'layers[n].mlp.contribution',
  Updates: 'updates',
};

export function pointNamed(name: string): FakePoint | undefined {
  return [...kPoints, ...kDerivedPoints].find((point) => point.name === name);
}

/** All usual points, and those that the plan names beside them. */
export function pointsOf(plan: unknown): readonly FakePoint[] {
  const entries = (plan as { entries?: readonly { point: string }[] } | null)?.entries ?? [];
  const named = kDerivedPoints.filter(({ name }) => entries.some(({ point }) => point === name));
  return [...kPoints, ...named];
}

/** Log-sum-exp, entropy, loss and id of the true next token, which is the best one. */
export function lensNumbers(layer: number, step: number, token: number): readonly number[] {
  const logSumExp = 13 + 0.1 * layer + 0.2 * Math.cos(token);
  const { id, value } = logitAt(step, token, 0);
  return [logSumExp, 1 + 0.1 * layer + 0.2 * Math.sin(token), logSumExp - value, id];
}

export function entropyAt(layer: number, step: number, token: number, head: number): number {
  return 2 + Math.sin(0.3 * token + head) + 0.1 * layer + step / 1000;
}

export function contributionAt(layer: number, step: number, token: number): number {
  return 1 + layer + 0.5 * Math.sin(0.2 * token + step);
}

export function updateAt(step: number, parameter: number, column: number): number {
  return ((parameter + 1) * (column + 1)) / 10 + step / 1000;
}

const kContext = 16;

/** Value, step, row, position, then the token with 16 ids on either side. */
export function topTokenAt(step: number, unit: number, rank: number): readonly number[] {
  const position = 20 + rank;
  const ids = Array.from({ length: 2 * kContext + 1 }, (_, i) =>
    tokenAt(step, position + i - kContext),
  );
  return [9 - unit - 0.5 * rank, step - rank, rank, position, ...ids];
}

interface Numbers {
  readonly shape: readonly number[];
  readonly compressor: number;
  readonly values: readonly number[];
}

/** What such an entry sends of one layer; undefined: it is a usual one. */
export function derivedNumbers(
  { point, compressor }: { point: string; compressor?: { kind: string; k?: number } },
  layer: number,
  step: number,
): Numbers | undefined {
  const tokens = Array.from({ length: kSequence }, (_, token) => token);
  if (compressor?.kind === 'top_tokens') return topTokens(step, compressor.k ?? 5);
  switch (point) {
    case 'LogitLens':
      return lens(layer, step, tokens, compressor?.k ?? 5);
    case 'attention.entropy': {
      const heads = Array.from({ length: kHeads }, (_, head) => head);
      const values = tokens.flatMap((token) =>
        heads.map((head) => entropyAt(layer, step, token, head)),
      );
      return { shape: [1, kSequence, kHeads], compressor: 0, values };
    }
    case 'mlp.contribution': {
      const values = tokens.map((token) => contributionAt(layer, step, token));
      return { shape: [1, kSequence, 1], compressor: 0, values };
    }
    case 'Updates': {
      const values = kParameters.flatMap((_, row) =>
        kUpdateColumns.map((__, column) => updateAt(step, row, column)),
      );
      return { shape: [1, kParameters.length, kUpdateColumns.length], compressor: 0, values };
    }
    default:
      return undefined;
  }
}

/** Planes of scores and ids, and one with the numbers of each token. */
function lens(layer: number, step: number, tokens: readonly number[], k: number): Numbers {
  const ranks = Array.from({ length: k }, (_, rank) => rank);
  const best = tokens.flatMap((token) => ranks.map((rank) => logitAt(step, token, rank)));
  const numbers = tokens.flatMap((token) => {
    const of = lensNumbers(layer, step, token);
    return ranks.map((j) => of[j] ?? 0);
  });
  const values = [...best.map(({ value }) => value), ...best.map(({ id }) => id), ...numbers];
  return { shape: [3, 1, tokens.length, k], compressor: 5, values };
}

const kUnits = 2;

function topTokens(step: number, k: number): Numbers {
  const values = Array.from({ length: kUnits * k }, (_, i) =>
    topTokenAt(step, Math.floor(i / k), i % k),
  ).flat();
  return { shape: [kUnits, k, 4 + 2 * kContext + 1], compressor: 6, values };
}
