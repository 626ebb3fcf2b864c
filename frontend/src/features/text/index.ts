import { chunk } from '../../core/registry/chunks';
import { type Feature, frameView } from '../../core/registry/feature';
import { pairOf } from '../../core/store/frame_pair';
import type { TopKFrame } from './frame';
import { kPageCompressors } from './page_compressor';
import { changedBest, divergencesOf } from './pair';
import { textEntries } from './text_entries';
import { responsesOf } from '../../ui/responses/responses.svelte';
import { kUrl } from './url';

/** The largest columns of each token (of logits: the predictions), and the tab of the text with them. */
export const kText: Feature = {
  url: kUrl,
  compressors: kPageCompressors,
  plan: async () => (await import('./plan')).kPlan,
  views: [
    frameView<TopKFrame>({
      kind: 'topk',
      panel: { later: chunk(() => import('./topk_view.svelte')) },
      reader: { later: chunk(() => import('./text_reader.svelte')) },
      files: async () => (await import('./files')).kTopKFiles,
      compare: {
        shapeOf: ({ map }) => `${map.rows} largest × ${map.cols} tokens`,
        pairOf: (base) => ({
          ...base,
          kind: 'topk',
          maps: pairOf(base.a.map, base.b.map),
          changed: changedBest(base.a, base.b),
          divergences: divergencesOf(base.a, base.b),
        }),
        panel: { later: chunk(() => import('./compare_topk.svelte')) },
      },
    }),
  ],
  tabs: [
    {
      tab: 'text',
      name: 'Text',
      text: 'Tokens of the batch and what the model predicts',
      panel: { later: chunk(() => import('./text_tab.svelte')) },
      pointsOf: textEntries,
      isOfOneLayer: true,
      hasNumbers: ({ frame }) => frame !== null && (frame.kind === 'topk' || frame.tokens !== null),
      // Without predictions only the text is shown.
      arrayNames: ({ kind }) => (kind === 'topk' ? null : ['tokens']),
    },
  ],
  start: responsesOf,
};
