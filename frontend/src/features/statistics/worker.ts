import type { WorkerFeature } from '../../core/worker/worker_feature';
import { kCompressors } from './compressor';
import { laterBuilder } from '../../core/store/view';
import type { StatsFrame } from './frame';

const kStats = laterBuilder<StatsFrame>(
  { kind: 'stats', form: 'stats', fits: () => true },
  async () => ({
    build: (await import('./stats_view')).statsView,
    buffersOf: ({ stepRidge, layerRidge }) => [stepRidge.bins.buffer, layerRidge.bins.buffer],
  }),
);

/** The worker's part of this feature. */
export const kWorker: WorkerFeature = {
  compressors: kCompressors,
  builders: [kStats],
};
