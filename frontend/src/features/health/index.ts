import { chunk } from '../../core/registry/chunks';
import { type Feature, frameView } from '../../core/registry/feature';
import type { HealthFrame } from './frame';

/** Attention health: entropy, largest score, share of the first token, by layer and head. */
export const kHealth: Feature = {
  plan: async () => (await import('./plan')).kPlan,
  views: [
    frameView<HealthFrame>({
      kind: 'health',
      panel: { later: chunk(() => import('./health_panel.svelte')) },
      files: async () => (await import('./files')).kHealthFiles,
    }),
  ],
};
