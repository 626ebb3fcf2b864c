import type { WorkerFeature } from '../../core/worker/worker_feature';
import { kCompressors } from './compressor';
import { laterBuilder } from '../../core/store/view';
import type { PassedFrame } from './frame';

const kPassed = laterBuilder<PassedFrame>(
  { kind: 'passed', form: 'empty', fits: () => true },
  async () => ({
    build: (await import('./passed_view')).passedView,
    buffersOf: () => [],
  }),
);

/** The worker's part of this feature. */
export const kWorker: WorkerFeature = {
  compressors: kCompressors,
  builders: [kPassed],
};
