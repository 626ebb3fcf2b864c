import type { FrameBase } from '../../core/store/frames';
import type { MapData } from '../../core/store/map_data';

/** Both heat maps of one step, ready to draw. */
export interface MapsFrame extends FrameBase {
  readonly kind: 'maps';
  readonly tiles: number;
  /** Rows: layers; columns: tokens. */
  readonly layerMap: MapData;
  /** One layer. Rows: tiles, or columns of the tensor; columns: tokens. */
  readonly tileMap: MapData;
}

/** Tiles × tokens of every layer, folded to the size of small maps. */
export interface LayersFrame extends FrameBase {
  readonly kind: 'layers';
  readonly tiles: number;
  /** One map for each of `layers`; null: not captured. */
  readonly maps: readonly (MapData | null)[];
}

/** One number for each layer and step. */
export interface OverFrame extends FrameBase {
  readonly kind: 'over';
  /** Rows: layers; columns: steps. */
  readonly map: MapData;
  /** The step of each column, also of a column without data. */
  readonly columns: readonly number[];
  /** The step of each cell's number: a column can contain several steps. */
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
