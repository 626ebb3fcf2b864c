import type { WorkerFeature } from '../../core/worker/worker_feature';
import { kCompressors } from './compressor';
import type { ViewBuilder } from '../../core/store/view';
import type { StatsFrame } from './frame';
import { statsView } from './stats_view';

const kStats: ViewBuilder<StatsFrame> = {
  kind: 'stats',
  form: 'stats',
  fits: () => true,
  build: statsView,
  buffersOf: ({ stepRidge, layerRidge }) => [stepRidge.bins.buffer, layerRidge.bins.buffer],
};

/** What the worker needs of this feature. */
export const kWorker: WorkerFeature = {
  compressors: kCompressors,
  builders: [kStats],
};
