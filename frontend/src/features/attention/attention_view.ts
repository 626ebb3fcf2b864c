import { type AttentionFrame, kMeanHead } from './frame';
import { foldLines, type LineRange, mapOfLines } from '../../core/store/fold';
import { type MapData, statsOf } from '../../core/store/map_data';
import { type CellReader, pinnedOf } from '../../core/store/pinned';
import { linesToFloats } from '../../protocol/numbers';
import { type Row, type Scene, tokenBaseOf, tokensOf, tokensOfRow } from '../../core/store/scene';

// The most rows and columns of one head's small map. All heads are shown side by side, in few pixels.
const kMaxSmall = 96;

/** Queries × keys of one head, from records of [rows, heads, queries, keys or tiles of keys]. */
export function attentionView(scene: Scene): AttentionFrame | undefined {
  const { shape } = scene.parts[0].header;
  const [, , queries, width] = shape;
  const found = tokenBaseOf(scene, 0, queries);
  if (found === undefined) return undefined;
  const { base, row, cols: lines } = found;
  const heads = row.record.header.shape[1];
  const head = Math.min(scene.query.head, heads - 1);
  if (heads === 0) return undefined;
  const tiled = width !== base.features;
  const cols = tiled ? width : tokensOfRow(scene.query, row.name, 0, width);
  const rangeOf = (each: number): LineRange => ({
    first: (row.row * heads + each) * queries,
    lines,
    width: cols,
  });
  const map =
    head === kMeanHead
      ? meanOf(Array.from({ length: heads }, (_, each) => mapOfLines(row.record, rangeOf(each))))
      : mapOfLines(row.record, rangeOf(head));
  if (map === undefined) return undefined;
  const { ids, positions } = tokensOf(scene, row.name, 0, cols);
  return {
    ...base,
    kind: 'attention',
    heads,
    head,
    keys: base.features,
    map,
    small: heads > 1 ? headsOf(scene, row, heads, rangeOf) : [],
    tokens: tiled ? null : ids,
    positions,
    queryTokens: base.tokens,
    queryPositions: base.positions,
    pinned: pinnedOf(scene, base.layers, row, readerOf(cols, head)),
  };
}

/** Reads the attention of the pinned query to one key. The pin's `cell` is the query's row of the map. */
function readerOf(columns: number, head: number): CellReader {
  return {
    dim: 0,
    columns,
    read: (record, row, { col, cell }) => {
      const [, heads, queries] = record.header.shape;
      if (cell === null || cell >= queries) return undefined;
      const of = (each: number): number | undefined =>
        linesToFloats(record, (row * heads + each) * queries + cell, 1)?.[col];
      if (head !== kMeanHead) return of(head);
      let sum = 0;
      for (let each = 0; each < heads; each++) sum += of(each) ?? Number.NaN;
      return sum / heads;
    },
  };
}

function headsOf(
  { detail }: Scene,
  { record }: Row,
  heads: number,
  rangeOf: (head: number) => LineRange,
): MapData[] {
  const mapOf = (range: LineRange): MapData | undefined =>
    detail === 'whole' ? mapOfLines(record, range) : foldLines(record, range, kMaxSmall);
  return Array.from({ length: heads }, (_, head) => mapOf(rangeOf(head))).filter(
    (map) => map !== undefined,
  );
}

/** The average of maps that have the same shape. */
function meanOf(maps: readonly (MapData | undefined)[]): MapData | undefined {
  const [first] = maps;
  if (first === undefined) return undefined;
  const values = new Float64Array(first.values.length);
  for (const map of maps) map?.values.forEach((value, i) => (values[i] += value / maps.length));
  return { ...first, values, stats: statsOf(values, first.present, first.cols) };
}
