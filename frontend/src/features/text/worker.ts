import type { WorkerFeature } from '../../core/worker/worker_feature';
import { buffersOfSoftmax } from '../../core/store/softmax';
import { laterBuilder } from '../../core/store/view';
import { kCompressors } from './compressor';
import type { TopKFrame } from './frame';

const kTopK = laterBuilder<TopKFrame>(
  { kind: 'topk', form: 'topk', fits: () => true },
  async () => ({
    build: (await import('./topk_view')).topKView,
    buffersOf: ({ map, ids, softmax }) => [
      map.values.buffer,
      ids.buffer,
      ...buffersOfSoftmax(softmax),
    ],
  }),
);

/** The worker's part of this feature. */
export const kWorker: WorkerFeature = {
  compressors: kCompressors,
  builders: [kTopK],
};
