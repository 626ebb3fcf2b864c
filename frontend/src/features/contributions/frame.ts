import type { FrameBase } from '../../core/store/frames';
import type { MapData } from '../../core/store/map_data';

/** What one kind of block adds to the residual stream: by layer, by token, over the steps. */
export interface ContributionFrame extends FrameBase {
  readonly kind: 'contribution';
  /** Mean over the tokens of the row, of each layer; NaN: not captured. */
  readonly byLayer: Float64Array<ArrayBuffer>;
  /** Layers down, tokens across. */
  readonly tokenMap: MapData;
  /** The mean, one line of each layer. */
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
