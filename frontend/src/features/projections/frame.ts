import type { FrameBase, History } from '../../core/store/frames';
import type { MapData } from '../../core/store/map_data';

export interface ProjectionFrame extends FrameBase {
  readonly kind: 'projection';
  readonly vectors: number;
  readonly vector: number;
  /** Layers down, tokens across, on one vector. */
  readonly layerMap: MapData;
  /** Of the last token and the mean over tokens. */
  readonly history: History;
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly projection: ProjectionFrame;
  }
  interface FeatureQuery {
    readonly vector: number;
  }
}
