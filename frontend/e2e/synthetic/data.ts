// The synthetic run: every number is a plain function of its place, so that a test
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

export function pointNamed(name: string): FakePoint | undefined {
  return kPoints.find((point) => point.name === name);
}

const kText =
  'First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n\n';

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
  const wave = Math.sin((6.3 * tile * (layer + 1)) / tiles) * Math.cos(token / 20);
  const grain = hash(token * 131 + tile * 7919 + step * 31 + layer * 17 + flag) - 0.5;
  return (wave + grain) * (0.3 + 0.1 * layer);
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

/** Number `i` of a record whose numbers no test reads as a picture. */
export function numberAt(layer: number, step: number, i: number): number {
  return layer + (i % 97) / 100 + step / 1000;
}

/** The best next token is the true one; the others follow in the alphabet. */
export function logitAt(
  step: number,
  token: number,
  rank: number,
): { readonly id: number; readonly value: number } {
  return { id: tokenAt(step, token + 1) + rank, value: 12 - 0.5 * rank + 0.5 * Math.sin(token) };
}
