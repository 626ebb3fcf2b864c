import type { FrameBase, History } from '../../core/store/frames';
import type { MapData } from '../../core/store/map_data';

export interface ProjectionFrame extends FrameBase {
  readonly kind: 'projection';
  readonly vectors: number;
  readonly vector: number;
  /** The projections on one vector. Rows: layers; columns: tokens. */
  readonly layerMap: MapData;
  /** The projections of the last token, and the mean over the tokens. */
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
