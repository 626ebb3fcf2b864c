import type { PlanEntry, RunFacts } from '../../protocol/messages';

const kPoint = 'HiddenStates';
const kTokens = 'InputTokens';
const kMaxTiles = 24;
/** Fewer tell too little: tokens are left out instead. */
const kFewestTiles = 8;
/** Of the numbers of one side; with the tokens and the headers a preview sends 1 MiB of each. */
const kMaxBytes = 900_000;
const kNumberBytes = 4;

/** What a preview is to take of the evaluation batch; null where the run has no such point. */
export function previewPlan(
  run: Pick<RunFacts, 'points' | 'model'> | null,
): { readonly entries: readonly PlanEntry[] } | null {
  const point = run?.points.find(({ name }) => name === kPoint);
  if (run === null || point === undefined) return null;
  const layers = point.last_layer - point.first_layer + 1;
  const sequence = Math.max(1, run.model.seq_length);
  const cells = Math.floor(kMaxBytes / (kNumberBytes * layers));
  const most = Math.min(kMaxTiles, point.features);
  const fewest = Math.min(kFewestTiles, point.features);
  const tiles = Math.min(most, Math.max(fewest, Math.floor(cells / sequence)));
  const length = Math.floor(cells / tiles);
  const taken = {
    ...{ phases: ['eval'], rows: 1 },
    ...(length < sequence ? { tokens: [0, length] } : {}),
  } as const satisfies Partial<PlanEntry>;
  const entry: PlanEntry = {
    ...{ point: kPoint, ...taken },
    compressor: { kind: 'tile', tiles, method: 'mean' },
    dtype: 'f32',
  };
  const hasTokens = run.points.some(({ name }) => name === kTokens);
  return { entries: hasTokens ? [entry, { point: kTokens, ...taken }] : [entry] };
}
