import { linesToFloats } from '../../protocol/numbers';
import type { TensorRecord } from '../../protocol/record';
import type { Pin, Pinned } from './pin';
import { historyOf, type Row, rowNamed, type Scene } from './scene';

/** How one number of a record is found. */
export interface CellReader {
  /** The dim of the shape that counts the batch rows. */
  readonly dim: number;
  /** Columns of the map. */
  readonly columns: number;
  /** Undefined: the record has no such cell. */
  read(record: TensorRecord, row: number, pin: Pin): number | undefined;
}

/** One number of each token: of records [rows, tokens, numbers], whatever the row of the pin. */
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

/** The pinned cell of one batch row; null where nothing is pinned or the map has no such cell. */
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
