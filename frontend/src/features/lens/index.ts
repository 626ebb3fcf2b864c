import { chunk } from '../../core/registry/chunks';
import { type Feature, frameView } from '../../core/registry/feature';
import type { LensFrame } from './frame';
import { kUrl } from './url';

/** The logit lens: what each layer would predict, layers by tokens. Its records come from `topk`. */
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
