import { chunk } from '../../core/registry/chunks';
import { type Feature, frameView } from '../../core/registry/feature';
import type { ContributionFrame } from './frame';

/** What attention and MLP of each layer add to the residual stream: norm, and ratio to the stream. */
export const kContributions: Feature = {
  plan: async () => (await import('./plan')).kPlan,
  views: [
    frameView<ContributionFrame>({
      kind: 'contribution',
      panel: { later: chunk(() => import('./contribution_panel.svelte')) },
      files: async () => (await import('./files')).kContributionFiles,
    }),
  ],
};
