import { linesToFloats } from '../../protocol/numbers';
import { foldExtremes } from '../../core/store/fold';
import type { LayersFrame } from './frame';
import type { MapData } from '../../core/store/map_data';
import { tileMapOf } from '../../core/store/token_maps';
import { rowNamed, type Row, type Scene, tokenBaseOf } from '../../core/store/scene';

// A small map is a few hundred pixels wide: more cells would be sent but not seen.
const kMaxTiles = 160;
const kMaxTokens = 320;

/** Tiles × tokens of one batch row in every captured layer, from records of [rows, sequence, tiles]. */
export function layersView(scene: Scene): LayersFrame | undefined {
  const { shape } = scene.parts[0].header;
  const found = shape.length === 3 ? tokenBaseOf(scene, 0, shape[1]) : undefined;
  if (found === undefined) return undefined;
  const { base, row, cols } = found;
  const maps = base.layers.map((layer) =>
    mapOf(scene, rowNamed(scene.group.layers.get(layer), 0, row.name), cols),
  );
  if (maps.every((map) => map === null)) return undefined;
  return { ...base, kind: 'layers', tiles: row.record.header.shape[2], maps };
}

function mapOf({ detail }: Scene, row: Row | undefined, cols: number): MapData | null {
  if (row === undefined) return null;
  const { shape } = row.record.header;
  const [, sequence, tiles] = shape;
  if (shape.length !== 3 || sequence < cols) return null;
  const values = linesToFloats(row.record, row.row * sequence, cols);
  if (values === undefined) return null;
  const map = tileMapOf(values, 0, cols, tiles);
  return detail === 'whole' ? map : foldExtremes(map, kMaxTiles, kMaxTokens);
}
