import type {
  CompressorFacts,
  Plan,
  PlanEntry,
  PointFacts,
  RunFacts,
} from '../../protocol/messages';
import { compressorNames } from '../../core/store/compressors';
import { compressorOf, defaultKind } from '../../core/session/watched';

/** One entry of the trace-configuration form; texts are what the user typed. */
export interface PlanRow {
  enabled: boolean;
  point: string;
  direction: 'value' | 'gradient';
  layers: string;
  every: string;
  train: boolean;
  evaluation: boolean;
  /** Every forward of an evaluation, not only the first; the form does not show it. */
  allEvaluation: boolean;
  microBatches: string;
  /** Name of a prompt set, '' for the run's own data. */
  prompts: string;
  rows: string;
  tokens: string;
  kind: string;
  tiles: string;
  /** One of kMethods, or `kExpression`. */
  method: string;
  expression: string;
  range: string;
  bins: string;
  vectors: string[];
  normalize: boolean;
  k: string;
  dtype: string;
  /** Members of the compressor that the form does not show, kept as they are. */
  rest: Pick<CompressorFacts, 'tiles_one_rank' | 'method_one_rank' | 'data_dims'>;
}

export const kMethods = ['mean', 'sum', 'absmax'] as const;
/** The choice of an expression in place of one of these methods. */
export const kExpression = 'expression';

export function rowsOf(plan: Plan, points: readonly PointFacts[]): PlanRow[] {
  return plan.entries.map((entry) =>
    rowOf(
      entry,
      points.find((point) => point.name === entry.point),
    ),
  );
}

function rowOf(entry: PlanEntry, point: PointFacts | undefined): PlanRow {
  const compressor = compressorOf(entry, point);
  const { tiles_one_rank, method_one_rank, data_dims } = compressor;
  const phases = entry.phases ?? ['train'];
  return {
    enabled: entry.enabled ?? true,
    point: entry.point,
    direction: entry.direction ?? 'value',
    layers: entry.layers ?? '',
    every: String(entry.every ?? 1),
    train: phases.includes('train'),
    evaluation: phases.includes('eval'),
    allEvaluation: entry.eval_forwards === 'all',
    microBatches: entry.micro_batches ?? '',
    prompts: entry.prompts ?? '',
    rows: typeof entry.rows === 'object' ? entry.rows.join(':') : String(entry.rows ?? ''),
    tokens: entry.tokens?.join(':') ?? '',
    ...compressorFields(compressor),
    dtype: entry.dtype ?? (point?.features === 0 ? 'i32' : 'f32'),
    rest: { tiles_one_rank, method_one_rank, data_dims },
  };
}

type CompressorFields =
  'kind' | 'tiles' | 'method' | 'expression' | 'range' | 'bins' | 'vectors' | 'normalize' | 'k';

function compressorFields(of: CompressorFacts): Pick<PlanRow, CompressorFields> {
  const method = of.method ?? 'mean';
  const builtIn = (kMethods as readonly string[]).includes(method);
  return {
    kind: of.kind,
    tiles: String(of.tiles ?? ''),
    method: builtIn ? method : kExpression,
    expression: builtIn ? '' : method,
    range: of.range?.join(':') ?? '',
    // Without a range there is nothing to choose.
    bins: of.range === undefined ? '' : String(of.bins ?? ''),
    vectors: [...(of.vectors ?? [])],
    normalize: of.normalize ?? true,
    k: String(of.k ?? ''),
  };
}

export function newRow(point: PointFacts): PlanRow {
  const row = rowOf({ point: point.name }, point);
  if (row.kind === 'tile') row.tiles = String(Math.min(64, point.features));
  return row;
}

/** A point without features (token ids) has no layers and nothing to compress. */
export function isTokens(point: PointFacts | undefined): boolean {
  return point?.features === 0;
}

export function hasLayers(point: PointFacts | undefined): boolean {
  return point === undefined || point.last_layer > 0;
}

export function hasGradient(point: PointFacts | undefined): boolean {
  return point?.gradient_placement !== undefined;
}

/** Compressors that the trainer takes for a point. */
export function kindChoices(
  point: PointFacts | undefined,
  run: Pick<RunFacts, 'vectors'> | null,
): readonly string[] {
  if (isTokens(point)) return ['none', 'empty'];
  const hasHeads = (point?.dims.length ?? 0) > 3;
  return compressorNames().filter((kind) => {
    if (kind === 'projection') return !hasHeads && (run?.vectors.length ?? 0) > 0;
    return !hasK(kind) || !hasHeads;
  });
}

/** True for a compressor that keeps the k best columns of each token. */
export function hasK(kind: string): boolean {
  return kind === 'topk' || kind === 'outliers';
}

/** Counts and columns of `stats`, `topk` and `outliers` do not fit few bits. */
export function dtypeChoices(kind: string, point: PointFacts | undefined): readonly string[] {
  if (isTokens(point)) return ['i32', 'i64'];
  return kind === 'stats' || hasK(kind) ? ['f32', 'f64'] : ['f32', 'f64', 'bf16', 'f16', 'u8'];
}

/** Makes the rest of a row fit after its point, compressor, direction or prompts were chosen. */
export function fitRow(
  row: PlanRow,
  point: PointFacts | undefined,
  run: Pick<RunFacts, 'vectors'> | null,
): void {
  if (!hasGradient(point)) row.direction = 'value';
  if (!hasLayers(point)) row.layers = '';
  if (!kindChoices(point, run).includes(row.kind)) row.kind = defaultKind(point);
  if (!dtypeChoices(row.kind, point).includes(row.dtype)) {
    row.dtype = dtypeChoices(row.kind, point)[0];
  }
  if (row.kind === 'projection' && row.vectors.length === 0)
    row.vectors = [...(run?.vectors ?? [])];
  // Evaluation has no gradients, and prompts are evaluated.
  if (row.direction === 'gradient') {
    row.prompts = '';
    row.evaluation = false;
    row.train = true;
  }
}

/** What the columns of the list do not show: "gradient · probes · rows 0:4". */
export function summaryOf(row: PlanRow): string {
  const window = (name: string, text: string): string => (text === '' ? '' : `${name} ${text}`);
  const rows = row.rows === '0' ? 'all rows' : row.rows === '1' ? '' : window('rows', row.rows);
  const reduced = row.method === kExpression ? row.expression : row.method;
  const eitherPhase = row.train ? 'train + eval' : 'eval';
  const batches = row.microBatches === '0' ? '' : window('micro-batches', row.microBatches);
  return [
    row.enabled ? '' : 'off',
    row.direction === 'gradient' ? 'gradient' : '',
    row.prompts,
    row.prompts === '' && row.evaluation ? eitherPhase : '',
    row.prompts === '' ? batches : '',
    rows,
    window('tokens', row.tokens),
    row.kind === 'projection' ? row.vectors.join(', ') : '',
    row.kind === 'tile' && row.method !== 'mean' ? reduced : '',
    row.kind === 'stats' ? window('histogram', row.range) : '',
    row.dtype === 'f32' || row.dtype === 'i32' ? '' : row.dtype,
  ]
    .filter((part) => part !== '')
    .join(' · ');
}
