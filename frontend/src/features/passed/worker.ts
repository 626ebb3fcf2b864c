import type { WorkerFeature } from '../../core/worker/worker_feature';
import { kCompressors } from './compressor';
import type { ViewBuilder } from '../../core/store/view';
import type { PassedFrame } from './frame';
import { passedView } from './passed_view';

const kPassed: ViewBuilder<PassedFrame> = {
  kind: 'passed',
  form: 'empty',
  fits: () => true,
  build: passedView,
  buffersOf: () => [],
};

/** What the worker needs of this feature. */
export const kWorker: WorkerFeature = {
  compressors: kCompressors,
  builders: [kPassed],
};
