import type { WorkerFeature } from '../../core/worker/worker_feature';
import { kCompressors } from './compressor';
import type { ViewBuilder } from '../../core/store/view';
import type { ProjectionFrame } from './frame';
import { projectionView } from './projection_view';

const kProjection: ViewBuilder<ProjectionFrame> = {
  kind: 'projection',
  form: 'projection',
  fits: () => true,
  build: projectionView,
  buffersOf: ({ layerMap }) => [layerMap.values.buffer],
};

/** What the worker needs of this feature. */
export const kWorker: WorkerFeature = {
  compressors: kCompressors,
  builders: [kProjection],
};
