import { linesToFloats } from '../../protocol/numbers';
import type { TensorRecord } from '../../protocol/record';
import type { Pin, Pinned } from './pin';
import { historyOf, type Row, rowNamed, type Scene } from './scene';

/** Reads one number of a record. */
export interface CellReader {
  /** The index of the batch-row dim in the shape. */
  readonly dim: number;
  /** The number of columns of the map. */
  readonly columns: number;
  /** The number of a cell; undefined if the record has no such cell. */
  read(record: TensorRecord, row: number, pin: Pin): number | undefined;
}

/** Reads one number of a token in records [rows, tokens, numbers]. It ignores the row of the pin. */
export function tokenReader(columns: number, number: number): CellReader {
  return {
    dim: 0,
    columns,
    read: (record, row, { col }) => {
      const tokens = record.header.shape[1];
      return col < tokens ? linesToFloats(record, row * tokens + col, 1)?.[number] : undefined;
    },
  };
}

/** The pinned cell of one batch row; null without a pin, or if the map has no such cell. */
export function pinnedOf(
  scene: Scene,
  layers: readonly number[],
  row: Row,
  reader: CellReader,
): Pinned | null {
  const { pin } = scene.query;
  if (pin === null || pin.col >= reader.columns || scene.detail !== 'shown') return null;
  const at = (of: Row | undefined, col: number): number | null =>
    of === undefined ? null : (reader.read(of.record, of.row, { ...pin, col }) ?? null);
  const value = at(row, pin.col);
  if (value === null) return null;
  const groups = historyOf(scene);
  const of = (parts: readonly TensorRecord[] | undefined): number | null =>
    at(rowNamed(parts, reader.dim, row.name), pin.col);
  return {
    pin,
    value,
    overColumns: Array.from({ length: reader.columns }, (_, col) => at(row, col)),
    overLayers: layers.map((layer) => of(scene.group.layers.get(layer))),
    steps: groups.map(({ step }) => step),
    overSteps: groups.map((group) => of(group.layers.get(scene.layer))),
  };
}
