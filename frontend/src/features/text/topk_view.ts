import { linesToFloats, toFloats } from '../../protocol/numbers';
import type { TopKFrame } from './frame';
import { type CellReader, pinnedOf } from '../../core/store/pinned';
import { tileMapOf } from '../../core/store/token_maps';
import { type Scene, tokenBaseOf } from '../../core/store/scene';
import { softmaxOf } from '../../core/store/softmax';

/** The largest numbers of every token and their columns: the first two planes of [planes, rows, tokens, k]. */
export function topKView(scene: Scene): TopKFrame | undefined {
  const { shape } = scene.parts[0].header;
  if (shape.length !== 4 || shape[0] < 2) return undefined;
  const found = tokenBaseOf(scene, 1, shape[2]);
  const values = found === undefined ? undefined : toFloats(found.row.record);
  if (found === undefined || values === undefined) return undefined;
  const { base, row, cols } = found;
  const [, rows, tokens, k] = row.record.header.shape;
  const plane = (index: number): number => (index * rows + row.row) * tokens * k;
  const ids = Int32Array.from(tileMapOf(values, plane(1), cols, k).values);
  const map = tileMapOf(values, plane(0), cols, k);
  const pinned = pinnedOf(scene, base.layers, row, readerOf(cols));
  const softmax = softmaxOf(values, row.record.header.shape, row.row, cols);
  return { ...base, kind: 'topk', map, ids, softmax, pinned };
}

/** Reads the number of the pinned rank. The column of this rank may change. */
function readerOf(columns: number): CellReader {
  return {
    dim: 1,
    columns,
    read: (record, row, { col, cell }) => {
      const tokens = record.header.shape[2];
      if (cell === null || col >= tokens) return undefined;
      return linesToFloats(record, row * tokens + col, 1)?.[cell];
    },
  };
}

/** One of the best columns of a token. */
export interface Ranked {
  readonly rank: number;
  readonly id: number;
  readonly value: number;
}

/** The cells of one column of the map, best first. */
export function bestOf(frame: Pick<TopKFrame, 'map' | 'ids'>, col: number): readonly Ranked[] {
  const { rows, cols, values } = frame.map;
  if (col < 0 || col >= cols) return [];
  return Array.from({ length: rows }, (_, rank) => ({
    rank,
    id: frame.ids[rank * cols + col],
    value: values[rank * cols + col],
  }));
}
