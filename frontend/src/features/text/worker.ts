import type { WorkerFeature } from '../../core/worker/worker_feature';
import { kCompressors } from './compressor';
import type { ViewBuilder } from '../../core/store/view';
import type { TopKFrame } from './frame';
import { topKView } from './topk_view';

const kTopK: ViewBuilder<TopKFrame> = {
  kind: 'topk',
  form: 'topk',
  fits: () => true,
  build: topKView,
  buffersOf: ({ map, ids }) => [map.values.buffer, ids.buffer],
};

/** What the worker needs of this feature. */
export const kWorker: WorkerFeature = {
  compressors: kCompressors,
  builders: [kTopK],
};
