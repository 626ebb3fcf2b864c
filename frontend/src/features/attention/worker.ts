import type { WorkerFeature } from '../../core/worker/worker_feature';
import type { ViewBuilder } from '../../core/store/view';
import { attentionView } from './attention_view';
import type { AttentionFrame } from './frame';

const kAttention: ViewBuilder<AttentionFrame> = {
  kind: 'attention',
  form: 'values',
  fits: ({ parts }) => parts[0].header.shape.length === 4,
  build: attentionView,
  buffersOf: ({ map, small }) => [map, ...small].map(({ values }) => values.buffer),
};

/** What the worker needs of this feature. */
export const kWorker: WorkerFeature = {
  compressors: [],
  builders: [kAttention],
};
