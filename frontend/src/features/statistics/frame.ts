import type { FrameBase, History } from '../../core/store/frames';

/** The ten numbers of `stats`, in the order of the wire. */
export const kStatNames = [
  'count',
  'mean',
  'std',
  'min',
  'max',
  'norm',
  'zeros',
  'NaN',
  '+Inf',
  '−Inf',
] as const;

/** Histograms side by side: of one layer at many steps, or of many layers at one step. */
export interface Ridge {
  /** Steps or layers, one of each row. */
  readonly names: readonly number[];
  /** Row by row. */
  readonly bins: Float64Array<ArrayBuffer>;
}

/** Where a layer left its range, and how. */
export interface Departure {
  readonly layer: number;
  readonly step: number;
  /** How many numbers were not finite; or else how large the norm was, in its usual ones. */
  readonly bad: number;
  readonly times: number;
}

export interface StatsFrame extends FrameBase {
  readonly kind: 'stats';
  /** Ten numbers for each layer, NaN for one that was not captured. */
  readonly table: Float64Array<ArrayBuffer>;
  /** The histogram of the chosen layer. */
  readonly bins: Float64Array<ArrayBuffer>;
  readonly history: History;
  readonly stepRidge: Ridge;
  readonly layerRidge: Ridge;
  /** The first layer that left its range; null: none has. */
  readonly departure: Departure | null;
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly stats: StatsFrame;
  }
}
