import { chunk } from '../../core/registry/chunks';
import { type Feature, frameView } from '../../core/registry/feature';
import type { LensFrame } from './frame';
import { kUrl } from './url';

/** The logit lens: the prediction of each layer after each token. The compressor `topk` makes its records. */
export const kLens: Feature = {
  url: kUrl,
  plan: async () => (await import('./plan')).kPlan,
  views: [
    frameView<LensFrame>({
      kind: 'lens',
      panel: { later: chunk(() => import('./lens_panel.svelte')) },
      files: async () => (await import('./files')).kLensFiles,
      compare: {
        shapeOf: ({ cols }) => `${cols} tokens`,
        pairOf: (base) => ({ ...base, kind: 'lens' }),
        panel: { later: chunk(() => import('./compare_lens.svelte')) },
      },
    }),
  ],
};
