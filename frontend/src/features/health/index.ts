import { chunk } from '../../core/registry/chunks';
import { type Feature, frameView } from '../../core/registry/feature';
import { layerPair } from '../../core/store/frame_pair';
import type { MapData } from '../../core/store/map_data';
import type { HealthFrame } from './frame';

/** Attention health: entropy, largest score, share of the first token, by layer and head. */
export const kHealth: Feature = {
  plan: async () => (await import('./plan')).kPlan,
  views: [
    frameView<HealthFrame>({
      kind: 'health',
      panel: { later: chunk(() => import('./health_panel.svelte')) },
      files: async () => (await import('./files')).kHealthFiles,
      compare: {
        shapeOf: ({ tokenMap }) => `${tokenMap.cols} tokens`,
        obstacle: (a, b) =>
          a.head === b.head
            ? undefined
            : `A has ${a.heads} heads, B has ${b.heads}: choose a head that both have.`,
        pairOf: ({ a, b, ...base }) => ({
          ...base,
          ...{ a, b, kind: 'health' },
          maps: layerPair(ofTokens(a), ofTokens(b), base.layers),
        }),
        panel: { later: chunk(() => import('./compare_health.svelte')) },
      },
    }),
  ],
};

function ofTokens({ tokenMap, layers }: HealthFrame): {
  layerMap: MapData;
  layers: readonly number[];
} {
  return { layerMap: tokenMap, layers };
}
