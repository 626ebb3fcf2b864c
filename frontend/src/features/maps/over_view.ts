import { linesToFloats } from '../../protocol/numbers';
import type { TensorRecord } from '../../protocol/record';
import { isLarger } from '../../core/store/fold';
import type { ViewQuery } from '../../core/store/frames';
import type { OverFrame } from './frame';
import { statsOf } from '../../core/store/map_data';
import type { StepGroup } from '../../core/store/ring_store';
import { baseOf, historyOf, type Scene, tokensOfRow } from '../../core/store/scene';
import { thinned } from '../../core/store/thinning';

// A screen has too few pixels for more columns.
const kMaxSteps = 1000;

/** One number for each layer and step, over all numbers of its records of [rows, sequence, tiles]. */
export function overView(scene: Scene): OverFrame | undefined {
  if (scene.parts[0].header.shape.length !== 3) return undefined;
  if (summaryOf(scene.query, scene.parts[0]) === undefined) return undefined;
  const history = historyOf(scene);
  const most = scene.detail === 'whole' ? Infinity : kMaxSteps;
  const { items, spacing } = thinned(history, scene.query.every, most);
  const cells = cellsOf(history, items);
  const starts = [...cells.keys()];
  const columns = scene.detail === 'whole' ? starts : columnsOf(starts, spacing, kMaxSteps);
  const base = baseOf(scene);
  const shown = columns.map((step) => cells.get(step) ?? []);
  return { ...base, kind: 'over', columns, ...mapOf(scene.query, base.layers, shown) };
}

/** For the step of each of `items`, all steps from this item to before the next item. */
function cellsOf(
  history: readonly StepGroup[],
  items: readonly StepGroup[],
): ReadonlyMap<number, readonly StepGroup[]> {
  const cells = new Map<number, StepGroup[]>();
  let cell: StepGroup[] = [];
  let next = 0;
  for (const group of history) {
    if (group === items[next]) {
      cells.set(group.step, (cell = []));
      next += 1;
    }
    cell.push(group);
  }
  return cells;
}

/**
 * A column for each step and each missing step. If these are too many, each gap of more than four
 * times the spacing has one column, and a smaller gap has no column.
 */
export function columnsOf(
  steps: readonly number[],
  spacing: number,
  most: number,
): readonly number[] {
  const [first, last] = [steps[0] ?? 0, steps.at(-1) ?? 0];
  const fits = (last - first) / spacing < most;
  return steps.flatMap((step, i) => {
    const missing = i === 0 ? 0 : Math.round((step - steps[i - 1]) / spacing) - 1;
    const gaps = fits ? Math.max(0, missing) : Number(missing >= 4);
    return [...Array.from({ length: gaps }, (_, gap) => steps[i - 1] + (gap + 1) * spacing), step];
  });
}

/** For each cell, the number farthest from 0 of all its steps, and the step of this number. */
function mapOf(
  query: ViewQuery,
  layers: readonly number[],
  cells: readonly (readonly StepGroup[])[],
): Pick<OverFrame, 'map' | 'stepOf'> {
  const cols = cells.length;
  const values = new Float32Array(layers.length * cols);
  const stepOf = new Float64Array(values.length);
  const absent = new Uint8Array(values.length).fill(1);
  layers.forEach((layer, row) => {
    cells.forEach((cell, col) => {
      const at = row * cols + col;
      for (const { step, layers: captured } of cell) {
        const value = valueOf(query, captured.get(layer) ?? []);
        if (value === undefined || (absent[at] === 0 && !isLarger(value, values[at]))) continue;
        absent[at] = 0;
        values[at] = value;
        stepOf[at] = step;
      }
    });
  });
  const present = new Uint8Array(layers.length).fill(1);
  const held = values.filter((_, at) => absent[at] === 0);
  const stats = statsOf(held, new Uint8Array([1]), held.length);
  return { map: { rows: layers.length, cols, values, present, absent, stats }, stepOf };
}

/** The number of a layer; undefined if the layer was not captured. */
function valueOf(query: ViewQuery, parts: readonly TensorRecord[]): number | undefined {
  let sum = 0;
  let count = 0;
  let absMax = 0;
  for (const part of parts) {
    const summary = summaryOf(query, part);
    if (summary === undefined) continue;
    sum += summary.sum;
    count += summary.count;
    absMax = largerOf(absMax, summary.absMax);
  }
  if (count === 0) return undefined;
  return query.aggregate === 'mean' ? sum / count : absMax;
}

interface Summary {
  readonly of: string;
  readonly sum: number;
  readonly count: number;
  readonly absMax: number;
}

// A record is summed only once, although every later summary contains it.
const kSummaries = new WeakMap<TensorRecord, Summary>();

/** The summary of all numbers of a record, without the padding of short prompts. */
function summaryOf(query: ViewQuery, record: TensorRecord): Summary | undefined {
  const of = `${query.firstToken}/${query.lengths?.join() ?? ''}`;
  const kept = kSummaries.get(record);
  if (kept?.of === of) return kept;
  const { shape, firstRow } = record.header;
  if (shape.length !== 3) return undefined;
  const [rows, sequence] = shape;
  let sum = 0;
  let count = 0;
  let absMax = 0;
  for (let row = 0; row < rows; row++) {
    const tokens = tokensOfRow(query, firstRow + row, query.firstToken, sequence);
    const values = linesToFloats(record, row * sequence, tokens);
    if (values === undefined) return undefined;
    for (const value of values) {
      sum += value;
      if (!(Math.abs(value) <= absMax)) absMax = largerOf(absMax, Math.abs(value));
    }
    count += values.length;
  }
  const made = { of, sum, count, absMax };
  kSummaries.set(record, made);
  return made;
}

/** The larger of two magnitudes; NaN if one of them is NaN. */
function largerOf(a: number, b: number): number {
  return a !== a || b !== b ? Number.NaN : Math.max(a, b);
}
