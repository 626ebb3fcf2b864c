import type { MapPair, PairBase } from '../../core/store/frame_pair';
import type { ProjectionFrame } from './frame';

export interface ProjectionPair extends PairBase<ProjectionFrame> {
  readonly layerMaps: MapPair;
}

declare module '../../core/store/frame_pair' {
  interface FramePairs {
    readonly projection: ProjectionPair;
  }
}
