import type { MapPair, PairBase } from '../../core/store/frame_pair';
import type { HealthFrame } from './frame';

export interface HealthPair extends PairBase<HealthFrame> {
  /** Rows: layers; columns: tokens. */
  readonly maps: MapPair;
}

declare module '../../core/store/frame_pair' {
  interface FramePairs {
    readonly health: HealthPair;
  }
}
