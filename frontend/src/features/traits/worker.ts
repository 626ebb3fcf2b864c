import { laterBuilder } from '../../core/store/view';
import type { WorkerFeature } from '../../core/worker/worker_feature';
import type { TraitsFrame } from './frame';

const kTraits = laterBuilder<TraitsFrame>(
  { kind: 'traits', form: 'projection', fits: ({ query }) => query.traits === true },
  async () => ({
    build: (await import('./traits_view')).traitsView,
    buffersOf: ({ layerMap, overSteps: { absent, mean, last } }) => [
      layerMap.values.buffer,
      ...[absent.buffer, mean.buffer, last.buffer],
    ],
  }),
);

/** The worker's part of this feature. */
export const kWorker: WorkerFeature = { compressors: [], builders: [kTraits] };
