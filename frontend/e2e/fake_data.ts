// The synthetic run of the fake hub: every number is a plain function of its place, so that a test
// can say what the page must show.

export interface FakePoint {
  readonly name: string;
  readonly flag: number;
  readonly features: number;
  readonly text: string;
}

export const kRunId = '5f0c12ab34cd56ef';
export const kLayers = 4;
export const kSequence = 256;

export const kPoints: readonly FakePoint[] = [
  { name: 'HiddenStates', flag: 7, features: 256, text: 'output of the transformer layer' },
  { name: 'QKV', flag: 1, features: 768, text: 'queries, keys and values' },
  { name: 'MLP1', flag: 4, features: 1024, text: 'first linear layer of the MLP' },
  { name: 'MLP2', flag: 5, features: 256, text: 'second linear layer of the MLP' },
  { name: 'InputTokens', flag: 8, features: 0, text: 'token ids and positions' },
];

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
