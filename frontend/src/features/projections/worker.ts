import type { WorkerFeature } from '../../core/worker/worker_feature';
import { kCompressors } from './compressor';
import { laterBuilder } from '../../core/store/view';
import type { ProjectionFrame } from './frame';

const kProjection = laterBuilder<ProjectionFrame>(
  { kind: 'projection', form: 'projection', fits: () => true },
  async () => ({
    build: (await import('./projection_view')).projectionView,
    buffersOf: ({ layerMap }) => [layerMap.values.buffer],
  }),
);

/** The worker's part of this feature. */
export const kWorker: WorkerFeature = {
  compressors: kCompressors,
  builders: [kProjection],
};
