import type {
  CompressorFacts,
  Plan,
  PlanEntry,
  PointFacts,
  RunFacts,
} from '../../protocol/messages';
import { compressorNames } from '../../core/store/compressors';
import { planCompressor, planCompressors } from '../../core/registry/plan';
import type { EntryRow, PlanRow } from '../../core/registry/plan_feature';
import { compressorOf, defaultKind } from '../../core/session/watched';

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
    responses: entry.responses ?? false,
    rows: typeof entry.rows === 'object' ? entry.rows.join(':') : String(entry.rows ?? ''),
    tokens: entry.tokens?.join(':') ?? '',
    meanOver: entry.mean_over ?? '',
    kind: compressor.kind,
    more: unshown(compressor),
    dtype: entry.dtype ?? (point?.features === 0 ? 'i32' : 'f32'),
    ...compressorMembers(compressor),
  };
}

/** The members of a row that compressors add, with the values of `of` or the defaults. */
export function compressorMembers(of: CompressorFacts): Omit<PlanRow, keyof EntryRow> {
  return Object.assign({}, ...planCompressors().map((each) => each.rowOf(of))) as PlanRow;
}

function unshown(of: CompressorFacts): CompressorFacts | null {
  const shown = planCompressor(of.kind)?.entryOf(compressorMembers(of) as PlanRow) ?? {};
  const others = Object.entries(of).filter(([name]) => name !== 'kind' && !(name in shown));
  return others.length === 0 ? null : { kind: of.kind, ...Object.fromEntries(others) };
}

export function newRow(point: PointFacts): PlanRow {
  const row = rowOf({ point: point.name }, point);
  return { ...row, ...planCompressor(row.kind)?.newRowOf?.(point) };
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

/** The compressors that the trainer accepts for a point. */
export function kindChoices(
  point: PointFacts | undefined,
  run: Pick<RunFacts, 'vectors'> | null,
): readonly string[] {
  if (isTokens(point) || point?.parameters !== undefined) return ['none', 'empty'];
  return compressorNames().filter((kind) => planCompressor(kind)?.takes?.(point, run) ?? true);
}

export function dtypeChoices(kind: string, point: PointFacts | undefined): readonly string[] {
  if (isTokens(point)) return ['i32', 'i64'];
  return planCompressor(kind)?.dtypes ?? ['f32', 'f64'];
}

/** Adapts the other members of a row after a choice of point, compressor, direction or prompts. */
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
  planCompressor(row.kind)?.fit?.(row, run);
  // Evaluation has no gradients, and prompts run as evaluation.
  if (row.direction === 'gradient') {
    row.prompts = '';
    row.evaluation = false;
    row.train = true;
  }
}

/** The members that the columns of the list do not show: "gradient · probes · rows 0:4". */
export function summaryOf(row: PlanRow): string {
  const window = (name: string, text: string): string => (text === '' ? '' : `${name} ${text}`);
  const rows = row.rows === '0' ? 'all rows' : row.rows === '1' ? '' : window('rows', row.rows);
  const eitherPhase = row.train ? 'train + eval' : 'eval';
  const batches = row.microBatches === '0' ? '' : window('micro-batches', row.microBatches);
  return [
    row.enabled ? '' : 'off',
    row.direction === 'gradient' ? 'gradient' : '',
    row.prompts,
    row.prompts !== '' && row.responses ? 'responses' : '',
    row.prompts === '' && row.evaluation ? eitherPhase : '',
    row.prompts === '' ? batches : '',
    rows,
    window('tokens', row.tokens),
    row.prompts === '' ? '' : window('mean over', row.meanOver),
    ...(planCompressor(row.kind)?.summaryOf?.(row) ?? []),
    row.dtype === 'f32' || row.dtype === 'i32' ? '' : row.dtype,
  ]
    .filter((part) => part !== '')
    .join(' · ');
}
