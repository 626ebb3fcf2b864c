import { laterBuilder } from '../../core/store/view';
import type { WorkerFeature } from '../../core/worker/worker_feature';
import type { HealthFrame } from './frame';
import { kMeasures } from './measures';

const kHealth = laterBuilder<HealthFrame>(
  {
    kind: 'health',
    form: 'values',
    // One column for each head: a tile can contain several heads.
    fits: ({ query, parts }) => {
      const { shape, features } = parts[0].header;
      return query.pointName in kMeasures && shape.length === 3 && shape[2] === features;
    },
    hasCurves: ({ pointName }) => pointName in kMeasures,
  },
  async () => ({
    build: (await import('./health_view')).healthView,
    buffersOf: ({ byHead, tokenMap }) => [byHead.buffer, tokenMap.values.buffer],
  }),
);

/** The worker's part of this feature. The compressors of `maps` make its records. */
export const kWorker: WorkerFeature = { compressors: [], builders: [kHealth] };
