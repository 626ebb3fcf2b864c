import type { MapPair, PairBase } from '../../core/store/frame_pair';
import type { HealthFrame } from './frame';

export interface HealthPair extends PairBase<HealthFrame> {
  /** Layers down, tokens across. */
  readonly maps: MapPair;
}

declare module '../../core/store/frame_pair' {
  interface FramePairs {
    readonly health: HealthPair;
  }
}
