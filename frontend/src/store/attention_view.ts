import { toFloats } from '../protocol/numbers';
import type { AttentionFrame } from './frames';
import { statsOf } from './map_data';
import { type Scene, tokenBaseOf, tokensOf, tokensOfRow } from './scene';

/** Queries × keys of one head; records of [rows, heads, queries, keys], the keys perhaps tiled. */
export function attentionView(scene: Scene): AttentionFrame | undefined {
  const { shape } = scene.parts[0].header;
  const [, , queries, width] = shape;
  const found = tokenBaseOf(scene, 0, queries);
  const values = found === undefined ? undefined : toFloats(found.row.record);
  if (found === undefined || values === undefined) return undefined;
  const { base, row, cols: shownQueries } = found;
  const heads = row.record.header.shape[1];
  const head = Math.min(scene.query.head, heads - 1);
  if (head < 0) return undefined;
  const tiled = width !== base.features;
  const cols = tiled ? width : tokensOfRow(scene.query, row.name, 0, width);
  const start = (row.row * heads + head) * queries * width;
  const size = shownQueries * cols;
  const out = values instanceof Float64Array ? new Float64Array(size) : new Float32Array(size);
  for (let query = 0; query < shownQueries; query++) {
    const line = start + query * width;
    out.set(values.subarray(line, line + cols), query * cols);
  }
  const present = new Uint8Array(shownQueries).fill(1);
  const stats = statsOf(out, present, cols);
  const { ids, positions } = tokensOf(scene, row.name, 0, cols);
  return {
    ...base,
    kind: 'attention',
    heads,
    head,
    keys: base.features,
    map: { rows: shownQueries, cols, values: out, present, stats },
    tokens: tiled ? null : ids,
    positions,
    queryTokens: base.tokens,
    queryPositions: base.positions,
  };
}
