import type { FrameBase } from '../../core/store/frames';
import type { LensColour } from './lens_colour';
import type { Floats } from '../../protocol/numbers';

/** The predictions of the model if it ended after each layer: layers × tokens. */
export interface LensFrame extends FrameBase {
  readonly kind: 'lens';
  readonly cols: number;
  /** The number of predictions in each cell. */
  readonly k: number;
  /** [layers, tokens, k], the largest score first. */
  readonly ids: Int32Array<ArrayBuffer>;
  readonly scores: Floats;
  /** [layers, tokens]; NaN: the layer was not captured. Entropy and loss are in nats. */
  readonly logSumExp: Float64Array<ArrayBuffer>;
  readonly entropy: Float64Array<ArrayBuffer>;
  /** The loss of the target; NaN also if the target is not known. */
  readonly loss: Float64Array<ArrayBuffer>;
  /** The token that follows each token; -1: not known. */
  readonly targets: Int32Array<ArrayBuffer>;
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly lens: LensFrame;
  }
  interface FeatureQuery {
    /** The kind of number of a pinned cell. */
    readonly lensColour: LensColour;
  }
}
