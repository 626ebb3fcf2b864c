import { toIntegers } from '../../protocol/numbers';
import { kInputTokensFlag, type TensorRecord } from '../../protocol/record';
import type { FrameBase, ViewQuery } from './frames';
import type { RingStore, SeriesQuery, StepGroup } from './ring_store';

/** The data from which a view is built: the records of one step, and their context. */
export interface Scene {
  readonly store: RingStore;
  readonly query: ViewQuery;
  readonly series: SeriesQuery;
  readonly steps: readonly number[];
  readonly group: StepGroup;
  readonly layer: number;
  /** The records of the layer, by micro-batch. */
  readonly parts: readonly TensorRecord[];
  readonly detail: Detail;
}

/**
 * `shown`: as much as a screen can show. `whole`: every number; small maps are not folded, and columns
 * of steps are not thinned out.
 */
export type Detail = 'shown' | 'whole';

/** A batch row of a layer: its record, its index in it, and its number in the global batch. */
export interface Row {
  readonly record: TensorRecord;
  readonly row: number;
  readonly name: number;
}

/** All rows of a layer; `dim` is the index of the row dim in the shape. */
export function rowsOf(parts: readonly TensorRecord[], dim: number): readonly Row[] {
  return parts.flatMap((record) =>
    Array.from({ length: record.header.shape[dim] ?? 0 }, (_, row) => ({
      record,
      row,
      name: record.header.firstRow + row,
    })),
  );
}

/** The same batch row in another layer. */
export function rowNamed(
  parts: readonly TensorRecord[] | undefined,
  dim: number,
  name: number,
): Row | undefined {
  for (const record of parts ?? []) {
    const row = name - record.header.firstRow;
    if (row >= 0 && row < (record.header.shape[dim] ?? 0)) return { record, row, name };
  }
  return undefined;
}

/** The number of the row's tokens among `length` tokens from `first` on, without the padding. */
export function tokensOfRow(
  query: Pick<ViewQuery, 'lengths'>,
  name: number,
  first: number,
  length: number,
): number {
  const whole = query.lengths?.[name];
  return whole === undefined ? length : Math.min(length, Math.max(0, whole - first));
}

export interface Tokens {
  readonly ids: Int32Array<ArrayBuffer> | null;
  readonly positions: Int32Array<ArrayBuffer>;
}

/** The ids and positions of `length` tokens from `first` on; id -1 for a token that was not captured. */
export function tokensOf(scene: Scene, name: number, first: number, length: number): Tokens {
  const positions = Int32Array.from({ length }, (_, i) => first + i);
  const found = inputTokens(scene, name);
  if (found === undefined) return { ids: null, positions };
  const shift = first - (found.positions[0] ?? 0);
  const ids = positions.map((_, i) => found.ids[i + shift] ?? -1);
  return { ids, positions };
}

function inputTokens(
  { store, query, group }: Scene,
  name: number,
): { ids: Int32Array; positions: Int32Array } | undefined {
  const { phase, promptSet } = query;
  const common = { point: kInputTokensFlag, entry: -1, plan: -1, direction: 0, form: 'values' };
  const series = { ...common, phase, promptSet } as SeriesQuery;
  for (const tokens of store.allAt(series, group.step)) {
    const place = rowNamed(tokens.layers.get(0), 1, name);
    const values = place === undefined ? undefined : toIntegers(place.record);
    if (place === undefined || values === undefined) continue;
    const [, rows, length] = place.record.header.shape;
    const plane = (index: number): Int32Array =>
      values.slice((index * rows + place.row) * length, (index * rows + place.row + 1) * length);
    return { ids: plane(0), positions: plane(1) };
  }
  return undefined;
}

/** The members of all frames; views of tokens fill in the members about rows and tokens. */
export function baseOf(scene: Scene): FrameBase {
  const { query, group, layer, parts, steps } = scene;
  const { entry, features, dtype, compressor } = parts[0].header;
  const captured = [...group.layers.keys()].sort((a, b) => a - b);
  return {
    query,
    step: group.step,
    plan: group.plan,
    entry,
    layer,
    layers: range(captured[0], captured[captured.length - 1]),
    rowNames: [],
    rowKind: query.promptSet > 0 ? 'prompt' : 'row',
    features,
    dtype,
    compressor,
    tokens: null,
    positions: new Int32Array(0),
    steps,
    fetched: group.fetched,
    pinned: null,
  };
}

/** The base of a view of one batch row, with row names and tokens. `columns`: tokens on the wire. */
export function tokenBaseOf(
  scene: Scene,
  dim: number,
  columns: number,
): { readonly base: FrameBase; readonly row: Row; readonly cols: number } | undefined {
  const rows = rowsOf(scene.parts, dim);
  const row = rows[Math.min(scene.query.row, rows.length - 1)];
  if (row === undefined) return undefined;
  const { firstToken } = scene.query;
  const cols = tokensOfRow(scene.query, row.name, firstToken, columns);
  const { ids: tokens, positions } = tokensOf(scene, row.name, firstToken, cols);
  const rowNames = rows.map(({ name }) => name);
  return { base: { ...baseOf(scene), rowNames, tokens, positions }, row, cols };
}

/** All steps of the shown series, under all plans. */
export function historyOf({ store, series, steps, parts }: Scene): readonly StepGroup[] {
  const { plan, entry } = parts[0].header;
  return store.atEach({ ...series, plan, entry }, steps);
}

export function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}
