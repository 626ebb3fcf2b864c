import { chunk } from '../../core/registry/chunks';
import { type Command, showCommand } from '../../core/registry/commands';
import { type Feature, frameView } from '../../core/registry/feature';
import type { Session } from '../../core/session/session';
import { layerPair } from '../../core/store/frame_pair';
import { baselinesOf } from '../../ui/baselines.svelte';
import type { ProjectionFrame } from './frame';
import { kPageCompressors } from './page_compressor';
import VectorChoice from './vector_choice.svelte';
import { kUrl } from './url';

/** Projections on direction vectors. */
export const kProjections: Feature = {
  url: kUrl,
  compressors: kPageCompressors,
  viewTools: [VectorChoice],
  plan: async () => (await import('./plan')).kPlan,
  views: [
    frameView<ProjectionFrame>({
      kind: 'projection',
      panel: { later: chunk(() => import('./projection_view.svelte')) },
      files: async () => (await import('./files')).kProjectionFiles,
      compare: {
        shapeOf: ({ layerMap }) => `${layerMap.cols} tokens`,
        pairOf: (base) => ({
          ...base,
          kind: 'projection',
          layerMaps: layerPair(base.a, base.b, base.layers),
        }),
        panel: { later: chunk(() => import('./compare_projections.svelte')) },
      },
    }),
  ],
  commandsOf,
  start: baselinesOf,
};

function commandsOf(session: Session): readonly Command[] {
  const { view, point } = session;
  const isLast = view.over === 'last';
  const vectors = point?.form === 'projection' ? (point.compressor.vectors ?? []) : [];
  return [
    ...vectors.map((name, vector) =>
      showCommand(session, `vector-${vector}`, `Vector ${name}`, { vector, layerLock: null }),
    ),
    showCommand(session, 'over', isLast ? 'Projection: mean of tokens' : 'Projection: last token', {
      over: isLast ? 'mean' : 'last',
    }),
  ];
}
