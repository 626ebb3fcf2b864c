import { chunk } from '../../core/registry/chunks';
import { type Feature, frameView } from '../../core/registry/feature';
import type { PassedFrame } from './frame';
import { kPageCompressors } from './page_compressor';

/** The compressor `empty`: the forward pass reached a point; its records have no numbers. */
export const kPassed: Feature = {
  compressors: kPageCompressors,
  plan: async () => (await import('./plan')).kPlan,
  views: [
    frameView<PassedFrame>({
      kind: 'passed',
      panel: { later: chunk(() => import('./passed_view.svelte')) },
    }),
  ],
};
