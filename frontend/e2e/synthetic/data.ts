// The synthetic run: every number is a plain function of its place.

export interface SyntheticPoint {
  readonly name: string;
  readonly flag: number;
  readonly features: number;
  readonly path: string;
  readonly numbers: string;
  readonly layered: boolean;
  readonly dims: readonly string[];
}

export const kRunId = '5f0c12ab34cd56ef';
export const kLayers = 4;
export const kHeads = 4;
export const kSequence = 256;
export const kHidden = 256;

const kActivations = {
  numbers: 'activation',
  layered: true,
  dims: ['batch', 'sequence', 'features'],
} as const;

export const kPoints: readonly SyntheticPoint[] = [
  { name: 'HiddenStates', flag: 7, features: kHidden, path: 'layers[n].output', ...kActivations },
  { name: 'MLP1', flag: 4, features: 4 * kHidden, path: 'layers[n].mlp.fc1', ...kActivations },
  { name: 'InputTokens', flag: 8, features: 0, path: 'tokens', ...kActivations, layered: false },
  {
    name: 'RawAttentionScore',
    flag: 2,
    features: kSequence,
    path: 'layers[n].attention.scores',
    numbers: 'attention probability',
    layered: true,
    dims: ['batch', 'heads', 'sequence', 'keys'],
  },
];

export function pointNamed(name: string): SyntheticPoint | undefined {
  return kPoints.find((point) => point.name === name);
}

const kText =
  'First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n\n';

export function tokenAt(step: number, position: number): number {
  return kText.charCodeAt((position + step * 7) % kText.length);
}

export function tileAt(
  layer: number,
  step: number,
  token: number,
  tile: number,
  tiles: number,
): number {
  const wave = Math.sin((6.3 * tile * (layer + 1)) / tiles) * Math.cos(token / 20);
  const grain = hash(token * 131 + tile * 7919 + step * 31 + layer * 17) - 0.5;
  return (wave + grain) * (0.3 + 0.1 * layer);
}

function hash(n: number): number {
  const s = Math.sin(n * 12.9898) * 43758.5453;
  return s - Math.floor(s);
}

export function stepFacts(step: number): Readonly<Record<string, number>> {
  return {
    step,
    loss: 1.55 + 4 * Math.exp(-step / 45) + 0.12 * hash(step),
    lr: 6e-4,
    grad_norm: 0.6 + 2.2 * Math.exp(-step / 30) + 0.5 * hash(step + 0.5) ** 3,
    tokens_per_second: 5400 + 100 * hash(step),
    step_ms: 380,
    consumed_tokens: step * 2048,
  };
}
