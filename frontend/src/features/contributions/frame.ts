import type { FrameBase } from '../../core/store/frames';
import type { MapData } from '../../core/store/map_data';

/** The contributions of one kind of block to the residual stream: by layer, by token and by step. */
export interface ContributionFrame extends FrameBase {
  readonly kind: 'contribution';
  /** For each layer, the mean over the tokens of the row; NaN: not captured. */
  readonly byLayer: Float64Array<ArrayBuffer>;
  /** Rows: layers; columns: tokens. */
  readonly tokenMap: MapData;
  /** The mean over the tokens: one curve for each layer. */
  readonly overSteps: {
    readonly steps: readonly number[];
    readonly values: readonly (readonly (number | null)[])[];
  };
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly contribution: ContributionFrame;
  }
}
