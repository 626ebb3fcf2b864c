import type { FrameBase, History } from '../../core/store/frames';

/** The first row of `stats`: its numbers before the histogram, in the order of the wire. */
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

/** All numbers of a layer: those of the first row, then those of the second row. */
export const kStatNames = [
  ...kFirstRow,
  'kurtosis',
  'rms',
  'row norm, smallest',
  'row norm, mean',
  'row norm, largest',
  'column norm, smallest',
  'column norm, mean',
  'column norm, largest',
] as const;
export type StatName = (typeof kStatNames)[number];

/** Histograms side by side: of one layer at many steps, or of many layers at one step. */
export interface Ridge {
  /** The step or the layer of each row. */
  readonly names: readonly number[];
  /** Row by row. */
  readonly bins: Float64Array<ArrayBuffer>;
}

/** The layer and the step at which a layer left its range, and the reason. */
export interface Departure {
  readonly layer: number;
  readonly step: number;
  /** The count of numbers that are not finite. If it is 0, `times` is the root mean square ÷ its median. */
  readonly bad: number;
  readonly times: number;
}

export interface StatsFrame extends FrameBase {
  readonly kind: 'stats';
  /** The numbers of kStatNames for each layer; NaN for a layer that was not captured. */
  readonly table: Float64Array<ArrayBuffer>;
  /** The histogram of the chosen layer. */
  readonly bins: Float64Array<ArrayBuffer>;
  readonly history: History;
  readonly stepRidge: Ridge;
  readonly layerRidge: Ridge;
  /** The first layer that left its range; null if all layers stayed in their range. */
  readonly departure: Departure | null;
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly stats: StatsFrame;
  }
}
