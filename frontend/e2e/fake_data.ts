// The synthetic run of the fake hub: every number is a plain function of its place, so that a test
// can say what the page must show.

export interface FakePoint {
  readonly name: string;
  readonly flag: number;
  readonly features: number;
  readonly text: string;
  readonly layered: boolean;
  readonly gradient: boolean;
  readonly dims: readonly string[];
}

export const kRunId = '5f0c12ab34cd56ef';
export const kLayers = 4;
export const kHeads = 4;
export const kSequence = 256;
export const kVectors = ['evil', 'sycophancy'] as const;
export const kPromptSet = {
  name: 'probes',
  interval: 10,
  prompts: ['Once upon a time', 'def f('],
} as const;

const kDims = ['batch', 'sequence', 'features'];
const kHeadDims = ['batch', 'heads', 'sequence', 'keys'];

function point(name: string, flag: number, features: number, text: string): FakePoint {
  return { name, flag, features, text, layered: true, gradient: true, dims: kDims };
}

const kOutside = { layered: false, gradient: false } as const;

export const kPoints: readonly FakePoint[] = [
  point('HiddenStates', 7, 256, 'output of the transformer layer'),
  point('QKV', 1, 768, 'queries, keys and values'),
  point('MLP1', 4, 1024, 'first linear layer of the MLP'),
  point('MLP2', 5, 256, 'second linear layer of the MLP'),
  { ...point('InputTokens', 8, 0, 'token ids and positions'), ...kOutside },
  {
    ...point('RawAttentionScore', 2, kSequence, 'attention probabilities by head'),
    gradient: false,
    dims: kHeadDims,
  },
  { ...point('FinalNorm', 22, 256, 'input of the output layer'), ...kOutside },
  { ...point('Logits', 23, 256, 'scores of the next token'), ...kOutside },
];

/** Points that a model computes for a plan alone: the run has those that its plan names. */
export const kDerivedPoints: readonly FakePoint[] = [
  point('attention.entropy', 31, kHeads, 'entropy of each head'),
  point('mlp.contribution', 32, 1, 'norm of what the MLP adds'),
  point('LogitLens', 33, 256, 'scores of the next token after a layer'),
  { ...point('Updates', 34, 11, 'numbers of each parameter'), layered: false },
].map((each) => ({ ...each, gradient: false }));

export function pointNamed(name: string | null): FakePoint | undefined {
  return [...kPoints, ...kDerivedPoints].find((each) => each.name === name);
}

const kText =
  'First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n\n' +
  'First Citizen:\nYou are all resolved rather to die than to famish?\n\nAll:\nResolved. resolved.\n\n' +
  "First Citizen:\nFirst, you know Caius Marcius is chief enemy to the people.\n\nAll:\nWe know't, we know't.\n";

export function tokenAt(step: number, position: number): number {
  return kText.charCodeAt((position + step * 7) % kText.length);
}

/** The value of a tile before it is rounded to the dtype of the wire. */
export function tileValue(
  flag: number,
  layer: number,
  step: number,
  token: number,
  tile: number,
  tiles: number,
): number {
  const x = token / kSequence;
  const y = tile / tiles;
  const text = tokenAt(step, token);
  const wave = Math.sin(6.3 * (y * (layer + 1) + flag * 0.13)) * Math.cos(9 * x * y + step * 0.05);
  const byToken = Math.sin(text * 1.7 + tile * 0.61 + flag) * (0.25 + 0.1 * layer);
  const band = Math.exp(-(((y - 0.2 * layer) * 9) ** 2)) * (text === 10 ? 2.4 : 0.5);
  const grain = (hash(token * 131 + tile * 7919 + step * 31 + layer * 17 + flag) - 0.5) * 0.35;
  return (0.55 * wave + byToken + band + grain) * (0.5 + 0.22 * layer);
}

function hash(n: number): number {
  const s = Math.sin(n * 12.9898) * 43758.5453;
  return s - Math.floor(s);
}

export function lossAt(step: number): number {
  const floor = 1.55;
  return floor + 4 * Math.exp(-step / 45) + 0.12 * (hash(step) - 0.5) + 0.6 * Math.exp(-step / 220);
}

export function gradNormAt(step: number): number {
  return 0.6 + 2.2 * Math.exp(-step / 30) + 0.5 * hash(step + 0.5) ** 3;
}

export function stepFacts(step: number): Readonly<Record<string, number>> {
  const facts: Record<string, number> = {
    step,
    loss: lossAt(step),
    lr: 6e-4,
    grad_norm: gradNormAt(step),
    tokens_per_second: 5400 + 100 * hash(step),
    step_ms: 380,
    consumed_tokens: step * 2048,
  };
  if (step % 20 === 0) facts.valid_loss = lossAt(step) + 0.12;
  return facts;
}

/** The width of a row of `stats`: ten numbers and 48 bins. */
export const kStatsWidth = 58;

/** Number `index` of `stats`; the second row comes after the 48 bins. */
export function statAt(layer: number, step: number, index: number): number {
  const spread = 1 + 0.1 * layer + step / 1000;
  const ten = [65536, 0.01 * layer + step / 1e4, spread, -5, 6, 256 * spread, 0.125, 0, 0, 0];
  if (index >= kStatsWidth) return moreStats(layer, spread)[index - kStatsWidth] ?? Number.NaN;
  return index < 10 ? ten[index] : Math.round(9000 * Math.exp(-(((index - 40 - layer) / 3) ** 2)));
}

/** Kurtosis, root mean square, then the least, mean and largest norm of a row and of a column. */
function moreStats(layer: number, spread: number): readonly number[] {
  const norms = [0.8 * spread, spread, 1.5 * spread];
  return [3 + layer, spread, ...norms.map((each) => 16 * each), ...norms.map((each) => 32 * each)];
}

/** Rises over the steps on the first vector, and is flat on the others. */
export function projectionAt(
  layer: number,
  step: number,
  row: number,
  token: number,
  vector: number,
): number {
  const drift = vector === 0 ? (step / 100) * layer : 0.5 * layer;
  return drift + 0.25 * Math.sin(token + layer) - row;
}

/** Causal, and looks back by `head` tokens. */
export function attentionAt(
  layer: number,
  head: number,
  query: number,
  key: number,
  step: number,
): number {
  if (key > query) return 0;
  return Math.exp(-Math.abs(query - key - 3 * head) / (2 + layer)) * (0.6 + 0.2 * Math.cos(step));
}

/** The best next token is the true one; the others follow in the alphabet. */
export function logitAt(
  step: number,
  token: number,
  rank: number,
): { readonly id: number; readonly value: number } {
  return { id: tokenAt(step, token + 1) + rank, value: 12 - 1.5 * rank + 0.5 * Math.sin(token) };
}
