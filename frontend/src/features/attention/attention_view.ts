import type { AttentionFrame } from './frame';
import { foldLines, type LineRange, mapOfLines } from '../../core/store/fold';
import type { MapData } from '../../core/store/map_data';
import { type Row, type Scene, tokenBaseOf, tokensOf, tokensOfRow } from '../../core/store/scene';

// All heads stand side by side: so many pixels are left for one.
const kMaxSmall = 96;

/** Queries × keys of one head; records of [rows, heads, queries, keys], the keys perhaps tiled. */
export function attentionView(scene: Scene): AttentionFrame | undefined {
  const { shape } = scene.parts[0].header;
  const [, , queries, width] = shape;
  const found = tokenBaseOf(scene, 0, queries);
  if (found === undefined) return undefined;
  const { base, row, cols: lines } = found;
  const heads = row.record.header.shape[1];
  const head = Math.min(scene.query.head, heads - 1);
  if (head < 0) return undefined;
  const tiled = width !== base.features;
  const cols = tiled ? width : tokensOfRow(scene.query, row.name, 0, width);
  const rangeOf = (each: number): LineRange => ({
    first: (row.row * heads + each) * queries,
    lines,
    width: cols,
  });
  const map = mapOfLines(row.record, rangeOf(head));
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
