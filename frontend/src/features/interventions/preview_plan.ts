import {
  activePrompts,
  kLogitsPoint,
  type PlanEntry,
  type PointFacts,
  type RunFacts,
} from '../../protocol/messages';

const kPoint = 'HiddenStates';
const kTokens = 'InputTokens';
const kMaxTiles = 24;
/** Fewer tiles show too little: tokens are left out instead. */
const kFewestTiles = 8;
/** The bytes of one side without headers. With headers, a preview sends at most 1 MiB of each side. */
const kMaxBytes = 960_000;
const kMapBytes = 560_000;
/** Of the map of a prompt. */
const kPromptMapBytes = 60_000;
/** Predictions of a token: fewer show too little, and `topk` accepts at most `kMaxBest`. */
const kFewestBest = 10;
const kMaxBest = 256;
const kNumberBytes = 4;
/** The numbers of each token in `InputTokens`: its id and its position. */
const kTokenNumbers = 2;
/** The numbers of a token's softmax, which follow the two planes of `topk`. */
const kSoftmax = 4;

type Run = Pick<RunFacts, 'points' | 'model' | 'prompt_sets'>;
/** The forwards and the rows of an entry. */
type Of = Pick<PlanEntry, 'phases' | 'prompts' | 'rows'>;

const kBatch: Of = { phases: ['eval'], rows: 1 };

/**
 * The plan of a preview for the evaluation batch and the prompts; null if the run has no HiddenStates. A run
 * that evaluates no batch has the map of the first prompt.
 */
export function previewPlan(run: Run | null): { readonly entries: readonly PlanEntry[] } | null {
  const states = run?.points.find(({ name }) => name === kPoint);
  if (run === null || states === undefined) return null;
  const sequence = Math.max(1, run.model.seq_length);
  const maps = mapEntry(kBatch, { own: sequence, all: sequence }, kMapBytes, states);
  const ofPrompt = activePrompts(run)
    .slice(0, 1)
    .map(({ name, tokens: ids = [] }) => {
      const lengths = { own: longestOf(ids.slice(0, 1)), all: longestOf(ids) };
      return mapEntry({ prompts: name, rows: 1 }, lengths, kPromptMapBytes, states);
    });
  const logits = run.points.find(({ name }) => name === kLogitsPoint);
  // Prompts get their bytes first: they are short, so that the whole vocabulary may fit.
  const room = [maps, ...ofPrompt].reduce((left, { bytes }) => left - bytes, kMaxBytes);
  const sets = logits === undefined ? [] : promptsWithin(run, room / 2);
  const ofSets = sets.reduce((sum, { tokens }) => sum + tokens, 0);
  const wayOfSets = logits === undefined ? null : wayOf(ofSets, room / 2, logits);
  const left = room - (wayOfSets?.bytes ?? 0);
  const length = Math.min(sequence, Math.floor(left / bytesOf(kFewestBest)));
  const wayOfBatch = logits === undefined ? null : wayOf(length, left, logits);
  const hasTokens = run.points.some(({ name }) => name === kTokens);
  const all = [
    { of: kBatch, way: wayOfBatch, part: firstTokens(length, sequence) },
    ...sets.map(({ name }) => ({ of: { prompts: name, rows: 0 }, way: wayOfSets, part: {} })),
  ];
  const entries = all.flatMap(({ of, way, part }) => [
    ...(hasTokens ? [{ point: kTokens, ...of }] : []),
    ...(way?.compressors ?? []).map((compressor) => ({
      ...{ point: kLogitsPoint, ...of, ...part, compressor },
    })),
  ]);
  return { entries: [maps.entry, ...entries, ...ofPrompt.map(({ entry }) => entry)] };
}

/** The tokens of the longest text. */
function longestOf(tokens: readonly (readonly number[])[]): number {
  return Math.max(1, ...tokens.map(({ length }) => length));
}

function firstTokens(length: number, of: number): Partial<PlanEntry> {
  return length < of ? { tokens: [0, length] } : {};
}

/** The map of a text of `own` tokens, in a pass of `all`, in at most `room` bytes. */
function mapEntry(
  of: Of,
  { own, all }: { readonly own: number; readonly all: number },
  room: number,
  point: PointFacts,
): { readonly entry: PlanEntry; readonly bytes: number } {
  const layers = point.last_layer - point.first_layer + 1;
  const cells = Math.floor(room / (kNumberBytes * layers));
  const most = Math.min(kMaxTiles, point.features);
  const fewest = Math.min(kFewestTiles, point.features);
  const tiles = Math.min(most, Math.max(fewest, Math.floor(cells / own)));
  const length = Math.min(own, Math.floor(cells / tiles));
  const entry: PlanEntry = {
    ...{ point: kPoint, ...of, ...firstTokens(length, all) },
    compressor: { kind: 'tile', tiles, method: 'mean' },
    dtype: 'f32',
  };
  const numbers = layers * tiles * length + kTokenNumbers * all;
  return { entry, bytes: kNumberBytes * numbers };
}

/** The prompt sets that fit into `room` bytes with `kFewestBest` predictions per token, in their order. */
function promptsWithin(run: Run, room: number): readonly { name: string; tokens: number }[] {
  let total = 0;
  const sets = [];
  for (const { name, tokens: ids = [] } of activePrompts(run)) {
    const tokens = ids.length * longestOf(ids);
    if (tokens === 0 || (total + tokens) * bytesOf(kFewestBest) > room) continue;
    total += tokens;
    sets.push({ name, tokens });
  }
  return sets;
}

/** The compressors of predictions: all scores, with the softmax of `topk`, if they fit; else the k best. */
interface Way {
  readonly compressors: readonly NonNullable<PlanEntry['compressor']>[];
  readonly bytes: number;
}

function wayOf(tokens: number, room: number, { features }: PointFacts): Way {
  const whole = tokens * (bytesOf(1) + kNumberBytes * features);
  if (whole <= room)
    return { compressors: [{ kind: 'none' }, { kind: 'topk', k: 1 }], bytes: whole };
  const fits = Math.floor((room / (Math.max(1, tokens) * kNumberBytes) - kTokenNumbers) / 3);
  const k = Math.min(kMaxBest, features, Math.max(kFewestBest, fits));
  return { compressors: [{ kind: 'topk', k }], bytes: tokens * bytesOf(k) };
}

/** The bytes of one token with its k best predictions. */
function bytesOf(k: number): number {
  return kNumberBytes * ((2 + Math.ceil(kSoftmax / k)) * k + kTokenNumbers);
}
