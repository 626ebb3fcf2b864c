import type { FrameBase } from '../../core/store/frames';
import type { MapData } from '../../core/store/map_data';
import type { Softmax } from '../../core/store/softmax';

export interface TopKFrame extends FrameBase {
  readonly kind: 'topk';
  /** Rows: ranks; columns: tokens. */
  readonly map: MapData;
  /** The column (of Logits: the token id) of every cell of the map. */
  readonly ids: Int32Array<ArrayBuffer>;
  /** The softmax of scores over the vocabulary; null if the record does not have it. */
  readonly softmax: Softmax | null;
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly topk: TopKFrame;
  }
}
