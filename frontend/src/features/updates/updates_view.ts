import { baseOf, historyOf, type Scene } from '../../core/store/scene';
import { toFloats } from '../../protocol/numbers';
import type { TensorRecord } from '../../protocol/record';
import type { UpdatesFrame } from './frame';
import { drawnColumn } from './update_rows';

/** The table of one step and the requested curves, from records of [1, parameters, columns]. */
export function updatesView(scene: Scene): UpdatesFrame | undefined {
  const [record] = scene.parts;
  const [, parameters, columns] = record.header.shape;
  const values = toFloats(record);
  if (values === undefined) return undefined;
  const column = drawnColumn(scene.query.updatesColumn, columns);
  const asked = new Set(scene.query.updatesDrawn);
  const records = historyOf(scene).flatMap(({ step, layers }): [number, TensorRecord][] => {
    const [of] = layers.get(scene.layer) ?? [];
    return of === undefined ? [] : [[step, of]];
  });
  const numbers = records.map(([, of]) => numbersOf(of, column));
  return {
    ...baseOf(scene),
    kind: 'updates',
    parameters,
    columns,
    table: Float64Array.from(values),
    overSteps: {
      column,
      steps: records.map(([step]) => step),
      values: Array.from({ length: parameters }, (_, row) =>
        asked.has(row) ? numbers.map((of) => of[row] ?? null) : [],
      ),
    },
  };
}

// A column of a record is read only once, although every later curve contains it.
const kKept = new WeakMap<TensorRecord, Map<number, readonly number[]>>();

function numbersOf(record: TensorRecord, column: number): readonly number[] {
  const kept = kKept.get(record) ?? new Map<number, readonly number[]>();
  kKept.set(record, kept);
  let numbers = kept.get(column);
  if (numbers === undefined) {
    const [, rows, columns] = record.header.shape;
    const values = toFloats(record);
    numbers = Array.from({ length: rows }, (_, row) => values?.[row * columns + column] ?? NaN);
    kept.set(column, numbers);
  }
  return numbers;
}
