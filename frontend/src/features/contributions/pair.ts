import type { MapPair, PairBase } from '../../core/store/frame_pair';
import type { ContributionFrame } from './frame';

export interface ContributionPair extends PairBase<ContributionFrame> {
  /** Rows: layers; columns: tokens. */
  readonly maps: MapPair;
}

declare module '../../core/store/frame_pair' {
  interface FramePairs {
    readonly contribution: ContributionPair;
  }
}
