import type { MapPair, PairBase } from '../../core/store/frame_pair';
import type { AttentionFrame } from './frame';

export interface AttentionPair extends PairBase<AttentionFrame> {
  readonly maps: MapPair;
}

declare module '../../core/store/frame_pair' {
  interface FramePairs {
    readonly attention: AttentionPair;
  }
}
