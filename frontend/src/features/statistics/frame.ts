import type { FrameBase, History } from '../../core/store/frames';

/** The numbers of `stats` before its histogram, in the order of the wire: the first row. */
const kFirstRow = [
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
export const kFirstNumbers = kFirstRow.length;

/** All numbers of a layer: the second row's, which begins on the wire below the first, come last. */
export const kStatNames = [
  ...kFirstRow,
  'kurtosis',
  'rms',
  'row norm, least',
  'row norm, mean',
  'row norm, largest',
  'column norm, least',
  'column norm, mean',
  'column norm, largest',
] as const;
export type StatName = (typeof kStatNames)[number];

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
  /** How many numbers were not finite; or else the root mean square in multiples of its median. */
  readonly bad: number;
  readonly times: number;
}

export interface StatsFrame extends FrameBase {
  readonly kind: 'stats';
  /** The numbers of kStatNames for each layer, NaN for one that was not captured. */
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
