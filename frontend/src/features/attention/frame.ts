import type { FrameBase } from '../../core/store/frames';
import type { MapData } from '../../core/store/map_data';

/** In place of a head: the average of all. */
export const kMeanHead = -1;

/** Attention of one head: queries down, keys (or tiles of them) across. */
export interface AttentionFrame extends FrameBase {
  readonly kind: 'attention';
  readonly heads: number;
  readonly head: number;
  readonly keys: number;
  readonly map: MapData;
  /** All heads, where there are several. */
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
