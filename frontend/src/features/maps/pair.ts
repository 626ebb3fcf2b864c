import type { MapPair, PairBase } from '../../core/store/frame_pair';
import type { MapsFrame } from './frame';

export interface MapsPair extends PairBase<MapsFrame> {
  readonly layerMaps: MapPair;
  readonly tileMaps: MapPair;
}

declare module '../../core/store/frame_pair' {
  interface FramePairs {
    readonly maps: MapsPair;
  }
}
