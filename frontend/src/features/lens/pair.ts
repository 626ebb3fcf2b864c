import { layerPair, type MapPair, type PairBase } from '../../core/store/frame_pair';
import { type MapData, statsOf } from '../../core/store/map_data';
import type { LensFrame } from './frame';
import { valueAt } from './lens_cells';
import type { LensColour } from './lens_colour';

export type LensPair = PairBase<LensFrame>;

declare module '../../core/store/frame_pair' {
  interface FramePairs {
    readonly lens: LensPair;
  }
}

/** Rows: layers; columns: tokens. The numbers that both sides' colours show, and their difference. */
export function lensMaps({ a, b, layers }: LensPair, colour: LensColour): MapPair {
  const of = (frame: LensFrame): { layerMap: MapData; layers: readonly number[] } => ({
    layerMap: mapOf(frame, colour),
    layers: frame.layers,
  });
  return layerPair(of(a), of(b), layers);
}

function mapOf(frame: LensFrame, colour: LensColour): MapData {
  const { layers, cols } = frame;
  const values = Float64Array.from({ length: layers.length * cols }, (_, cell) =>
    valueAt(frame, Math.floor(cell / cols), cell % cols, colour),
  );
  const present = Uint8Array.from(layers, (_, row) =>
    Number.isNaN(frame.logSumExp[row * cols]) ? 0 : 1,
  );
  return { rows: layers.length, cols, values, present, stats: statsOf(values, present, cols) };
}
