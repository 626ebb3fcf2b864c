import type { FrameBase } from '../../core/store/frames';
import type { LensColour } from './lens_colour';
import type { Floats } from '../../protocol/numbers';

/** What the model would predict if it ended behind each layer: layers by tokens. */
export interface LensFrame extends FrameBase {
  readonly kind: 'lens';
  readonly cols: number;
  /** Predictions of each cell. */
  readonly k: number;
  /** [layers, tokens, k], the largest score first. */
  readonly ids: Int32Array<ArrayBuffer>;
  readonly scores: Floats;
  /** [layers, tokens]; NaN: a layer was not captured. Entropy and loss in nats. */
  readonly logSumExp: Float64Array<ArrayBuffer>;
  readonly entropy: Float64Array<ArrayBuffer>;
  /** Of the target; NaN also where no target is known. */
  readonly loss: Float64Array<ArrayBuffer>;
  /** The token that follows each token; -1: not known. */
  readonly targets: Int32Array<ArrayBuffer>;
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly lens: LensFrame;
  }
  interface FeatureQuery {
    /** What the numbers of a pinned cell are. */
    readonly lensColour: LensColour;
  }
}
