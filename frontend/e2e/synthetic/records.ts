// Records of the synthetic run, entry by entry of the trace plan: tiles, token ids, and attention.

import {
  kHeads,
  kLayers,
  kSequence,
  pointNamed,
  type SyntheticPoint,
  tileAt,
  tokenAt,
} from './data.ts';
import type { RecordFields } from './record.ts';

export interface Entry {
  readonly point: string;
  readonly layers?: '1-4' | '1';
  readonly compressor?:
    { readonly kind: 'tile'; readonly tiles: number } | { readonly kind: 'none' };
}

interface SyntheticRecord {
  readonly fields: Omit<RecordFields, 'run' | 'sequence' | 'plan' | 'step' | 'entry'>;
  readonly payload: Buffer;
}

/** The records of an entry at a step: f32, one for each layer; token ids in i32. */
export function recordsOf(entry: Entry, step: number): SyntheticRecord[] {
  const point = pointNamed(entry.point);
  if (point === undefined) throw new Error(entry.point);
  if (!point.layered) return [tokensOf(step)];
  const layers = range(entry.layers === '1' ? 1 : kLayers).map((index) => index + 1);
  return layers.map((layer) =>
    point.name === 'RawAttentionScore'
      ? recordOf(point, layer, 0, [1, kHeads, kSequence, kSequence], () => 1 / kSequence)
      : tilesOf(
          point,
          layer,
          step,
          entry.compressor?.kind === 'tile' ? entry.compressor.tiles : 64,
        ),
  );
}

function tilesOf(
  point: SyntheticPoint,
  layer: number,
  step: number,
  tiles: number,
): SyntheticRecord {
  return recordOf(point, layer, 1, [1, kSequence, tiles], (i) =>
    tileAt(layer, step, Math.floor(i / tiles), i % tiles, tiles),
  );
}

function recordOf(
  { flag, features }: SyntheticPoint,
  layer: number,
  compressor: number,
  shape: readonly number[],
  value: (index: number) => number,
): SyntheticRecord {
  const length = shape.reduce((product, each) => product * each, 1);
  const payload = Buffer.from(Float32Array.from(range(length), value).buffer);
  return {
    fields: { point: flag, features, layer, compressor, shape, dtype: 2, phase: 0 },
    payload,
  };
}

function tokensOf(step: number): SyntheticRecord {
  const places = range(kSequence);
  const ids = places.map((place) => tokenAt(step, place));
  const about = { point: 8, layer: 0, features: 0, dtype: 5, compressor: 0, phase: 0 };
  const payload = Buffer.from(Int32Array.from([...ids, ...places]).buffer);
  return { fields: { ...about, shape: [2, 1, kSequence] }, payload };
}

function range(length: number): number[] {
  return Array.from({ length }, (_, index) => index);
}
