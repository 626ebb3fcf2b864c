import type { WorkerFeature } from '../../core/worker/worker_feature';
import { laterBuilder } from '../../core/store/view';
import type { AttentionFrame } from './frame';

const kAttention = laterBuilder<AttentionFrame>(
  {
    kind: 'attention',
    form: 'values',
    fits: ({ parts }) => parts[0].header.shape.length === 4,
  },
  async () => ({
    build: (await import('./attention_view')).attentionView,
    buffersOf: ({ map, small }) => [map, ...small].map(({ values }) => values.buffer),
  }),
);

/** The worker's part of this feature. */
export const kWorker: WorkerFeature = {
  compressors: [],
  builders: [kAttention],
};
