import type { FrameBase } from '../../core/store/frames';
import type { MapData } from '../../core/store/map_data';

/** One number for each vector, layer and step, over all rows of the records. */
export interface TraitSeries {
  readonly steps: readonly number[];
  /** 1 for each layer and step without a record. Like each vector below: rows are layers, columns steps. */
  readonly absent: Uint8Array<ArrayBuffer>;
  /** Vector by vector: the mean over all tokens, and the mean over the last tokens of the rows. */
  readonly mean: Float32Array<ArrayBuffer>;
  readonly last: Float32Array<ArrayBuffer>;
}

/** The projections on all vectors of an entry over the steps, and those of one row at the shown step. */
export interface TraitsFrame extends FrameBase {
  readonly kind: 'traits';
  readonly vectors: number;
  readonly vector: number;
  /** The projections of the row on `vector`. Rows: layers; columns: tokens. */
  readonly layerMap: MapData;
  readonly overSteps: TraitSeries;
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly traits: TraitsFrame;
  }
  interface FeatureQuery {
    /** Of the records of projections, all vectors over the steps are wanted. */
    readonly traits?: boolean;
    /** The rows are means over responses. NaN stands for a prompt without a response, which does not count. */
    readonly ofResponses?: boolean;
  }
}
