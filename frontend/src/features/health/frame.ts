import type { FrameBase } from '../../core/store/frames';
import type { MapData } from '../../core/store/map_data';

/** One measure of each head's attention: by layer, by token and by step. */
export interface HealthFrame extends FrameBase {
  readonly kind: 'health';
  readonly heads: number;
  readonly head: number;
  /** [layers, heads]: the mean or the largest over the tokens of the row; NaN: not captured. */
  readonly byHead: Float64Array<ArrayBuffer>;
  /** The chosen head. Rows: layers; columns: tokens (queries). */
  readonly tokenMap: MapData;
  /** The chosen head: one curve for each layer. */
  readonly overSteps: {
    readonly steps: readonly number[];
    readonly values: readonly (readonly (number | null)[])[];
  };
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly health: HealthFrame;
  }
}
