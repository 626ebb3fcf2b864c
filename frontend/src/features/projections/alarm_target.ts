/** Which projection a threshold watches. */
export interface AlarmTarget {
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
export function formatAlarmTarget({ entry, layer, row, vector, over, phase }: AlarmTarget): string {
  return [layer, row, vector, over, phase, entry].join('.');
}

/** What formatAlarmTarget wrote; undefined for anything else. */
export function parseAlarmTarget(text: string): AlarmTarget | undefined {
  const parts = /^(\d{1,6})\.(\d{1,6})\.(\d{1,6})\.(last|mean)\.(train|eval)\.(.+)$/.exec(text);
  if (parts === null) return undefined;
  const [layer, row, vector] = parts.slice(1, 4).map(Number);
  const over = parts[4] === 'mean' ? 'mean' : 'last';
  const phase = parts[5] === 'eval' ? 'eval' : 'train';
  return { entry: parts[6], layer, row, vector, over, phase };
}
