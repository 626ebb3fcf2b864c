import { chunk } from '../../core/registry/chunks';
import { type Feature, frameView } from '../../core/registry/feature';
import type { UpdatesFrame } from './frame';
import { kUrl } from './url';

/** Weights, gradients, updates and Adam moments of each parameter. */
export const kUpdates: Feature = {
  url: kUrl,
  plan: async () => (await import('./plan')).kPlan,
  views: [
    frameView<UpdatesFrame>({
      kind: 'updates',
      panel: { later: chunk(() => import('./updates_panel.svelte')) },
      files: async () => (await import('./files')).kUpdatesFiles,
    }),
  ],
};
