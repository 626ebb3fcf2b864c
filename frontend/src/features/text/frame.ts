import type { FrameBase } from '../../core/store/frames';
import type { MapData } from '../../core/store/map_data';

export interface TopKFrame extends FrameBase {
  readonly kind: 'topk';
  /** Ranks down, tokens across. */
  readonly map: MapData;
  /** The column (of Logits: the token id) of every cell of the map. */
  readonly ids: Int32Array<ArrayBuffer>;
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly topk: TopKFrame;
  }
}
