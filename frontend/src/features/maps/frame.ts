import type { FrameBase } from '../../core/store/frames';
import type { MapData } from '../../core/store/map_data';

/** Both heat maps of one step, ready to draw. */
export interface MapsFrame extends FrameBase {
  readonly kind: 'maps';
  readonly tiles: number;
  /** Layers down, tokens across. */
  readonly layerMap: MapData;
  /** Tiles (or columns) down, tokens across, of one layer. */
  readonly tileMap: MapData;
}

/** Tiles × tokens of every layer, folded to what small maps can show. */
export interface LayersFrame extends FrameBase {
  readonly kind: 'layers';
  readonly tiles: number;
  /** One of each of `layers`; null: not captured. */
  readonly maps: readonly (MapData | null)[];
}

/** One number of each layer and step. */
export interface OverFrame extends FrameBase {
  readonly kind: 'over';
  /** Layers down, steps across. */
  readonly map: MapData;
  /** The step of each column, of gaps too. */
  readonly columns: readonly number[];
  /** The step of each cell's number: a column may stand for several. */
  readonly stepOf: Float64Array<ArrayBuffer>;
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly maps: MapsFrame;
    readonly layers: LayersFrame;
    readonly over: OverFrame;
  }
  interface FeatureQuery {
    readonly aggregate: 'mean' | 'absmax';
  }
}
