import { chunk } from '../../core/registry/chunks';
import { type Feature, frameView } from '../../core/registry/feature';
import type { TopTokensFrame } from './frame';
import { kPageCompressors } from './page_compressor';

/** The tokens with the largest numbers of a neuron or a direction, over the run, with their text. */
export const kTopTokens: Feature = {
  compressors: kPageCompressors,
  plan: async () => (await import('./plan')).kPlan,
  views: [
    frameView<TopTokensFrame>({
      kind: 'top_tokens',
      panel: { later: chunk(() => import('./top_tokens_panel.svelte')) },
      files: async () => (await import('./files')).kTopTokensFiles,
    }),
  ],
};
