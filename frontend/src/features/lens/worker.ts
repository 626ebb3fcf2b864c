import { kLensPoint } from './lens_point';
import { laterBuilder } from '../../core/store/view';
import type { WorkerFeature } from '../../core/worker/worker_feature';
import type { LensFrame } from './frame';

const kLens = laterBuilder<LensFrame>(
  {
    kind: 'lens',
    form: 'topk',
    fits: ({ query, parts }) =>
      query.pointName.startsWith(kLensPoint) && parts[0].header.shape[0] > 2,
  },
  async () => ({
    build: (await import('./lens_view')).lensView,
    buffersOf: ({ ids, scores, logSumExp, entropy, loss, targets }) =>
      [ids, scores, logSumExp, entropy, loss, targets].map(({ buffer }) => buffer),
  }),
);

/** The worker's part of this feature. The compressor `topk` makes its records. */
export const kWorker: WorkerFeature = { compressors: [], builders: [kLens] };
