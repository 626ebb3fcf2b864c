import { laterBuilder } from '../../core/store/view';
import type { WorkerFeature } from '../../core/worker/worker_feature';
import type { UpdatesFrame } from './frame';
import { kUpdatesPoint } from './point';

const kUpdates = laterBuilder<UpdatesFrame>(
  {
    kind: 'updates',
    form: 'values',
    fits: ({ query, parts }) =>
      query.pointName === kUpdatesPoint && parts[0].header.shape.length === 3,
    hasCurves: ({ pointName }) => pointName === kUpdatesPoint,
  },
  async () => ({
    build: (await import('./updates_view')).updatesView,
    buffersOf: ({ table }) => [table.buffer],
  }),
);

/** The worker's part of this feature. The compressor `none` makes its records. */
export const kWorker: WorkerFeature = { compressors: [], builders: [kUpdates] };
