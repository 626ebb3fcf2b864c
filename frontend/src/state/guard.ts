/** Which projection a threshold watches. */
export interface Guard {
  /** Name of the watched entry. */
  readonly entry: string;
  readonly layer: number;
  readonly row: number;
  /** By its place in the entry's list. */
  readonly vector: number;
  readonly over: 'last' | 'mean';
  readonly phase: 'train' | 'eval';
}

/** "3.0.1.last.train.HiddenStates · projection" */
export function formatGuard({ entry, layer, row, vector, over, phase }: Guard): string {
  return [layer, row, vector, over, phase, entry].join('.');
}

/** What formatGuard wrote; undefined for anything else. */
export function parseGuard(text: string): Guard | undefined {
  const parts = /^(\d{1,6})\.(\d{1,6})\.(\d{1,6})\.(last|mean)\.(train|eval)\.(.+)$/.exec(text);
  if (parts === null) return undefined;
  const [layer, row, vector] = parts.slice(1, 4).map(Number);
  const over = parts[4] === 'mean' ? 'mean' : 'last';
  const phase = parts[5] === 'eval' ? 'eval' : 'train';
  return { entry: parts[6], layer, row, vector, over, phase };
}
