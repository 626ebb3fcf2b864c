import type { FrameBase } from '../../core/store/frames';
import type { MapData } from '../../core/store/map_data';

/** One number of each head's attention: by layer, by token, over the steps. */
export interface HealthFrame extends FrameBase {
  readonly kind: 'health';
  readonly heads: number;
  readonly head: number;
  /** [layers, heads]: over the tokens of the row; NaN: not captured. */
  readonly byHead: Float64Array<ArrayBuffer>;
  /** Layers down, tokens (queries) across, of the chosen head. */
  readonly tokenMap: MapData;
  /** Of the chosen head, one line of each layer. */
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
