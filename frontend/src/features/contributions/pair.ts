import type { MapPair, PairBase } from '../../core/store/frame_pair';
import type { ContributionFrame } from './frame';

export interface ContributionPair extends PairBase<ContributionFrame> {
  /** Layers down, tokens across. */
  readonly maps: MapPair;
}

declare module '../../core/store/frame_pair' {
  interface FramePairs {
    readonly contribution: ContributionPair;
  }
}
