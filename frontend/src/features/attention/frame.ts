import type { FrameBase } from '../../core/store/frames';
import type { MapData } from '../../core/store/map_data';

/** The value of `head` that stands for the average of all heads. */
export const kMeanHead = -1;

/** The attention of one head. Rows: queries; columns: keys, or tiles of keys. */
export interface AttentionFrame extends FrameBase {
  readonly kind: 'attention';
  readonly heads: number;
  readonly head: number;
  readonly keys: number;
  readonly map: MapData;
  /** The maps of all heads; empty if there is only one head. */
  readonly small: readonly MapData[];
  readonly queryTokens: Int32Array | null;
  readonly queryPositions: Int32Array;
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly attention: AttentionFrame;
  }
  interface FeatureQuery {
    readonly head: number;
  }
}
