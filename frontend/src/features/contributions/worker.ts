import { laterBuilder } from '../../core/store/view';
import type { WorkerFeature } from '../../core/worker/worker_feature';
import type { ContributionFrame } from './frame';
import { kContributionPoints } from './points';

const kContribution = laterBuilder<ContributionFrame>(
  {
    kind: 'contribution',
    form: 'values',
    fits: ({ query, parts }) => {
      const { shape } = parts[0].header;
      return query.pointName in kContributionPoints && shape.length === 3 && shape[2] === 1;
    },
    hasCurves: ({ pointName }) => pointName in kContributionPoints,
  },
  async () => ({
    build: (await import('./contribution_view')).contributionView,
    buffersOf: ({ byLayer, tokenMap }) => [byLayer.buffer, tokenMap.values.buffer],
  }),
);

/** The worker's part of this feature. The compressors of `maps` make its records. */
export const kWorker: WorkerFeature = { compressors: [], builders: [kContribution] };
