import { chunk } from '../../core/registry/chunks';
import { type Feature, frameView } from '../../core/registry/feature';
import { layerPair } from '../../core/store/frame_pair';
import type { MapData } from '../../core/store/map_data';
import type { ContributionFrame } from './frame';

/** Contributions of attention and MLP to the residual stream in each layer: norm, and ratio to the stream. */
export const kContributions: Feature = {
  plan: async () => (await import('./plan')).kPlan,
  views: [
    frameView<ContributionFrame>({
      kind: 'contribution',
      panel: { later: chunk(() => import('./contribution_panel.svelte')) },
      files: async () => (await import('./files')).kContributionFiles,
      compare: {
        shapeOf: ({ tokenMap }) => `${tokenMap.cols} tokens`,
        pairOf: ({ a, b, ...base }) => ({
          ...base,
          ...{ a, b, kind: 'contribution' },
          maps: layerPair(ofTokens(a), ofTokens(b), base.layers),
        }),
        panel: { later: chunk(() => import('./compare_contributions.svelte')) },
      },
    }),
  ],
};

function ofTokens({ tokenMap, layers }: ContributionFrame): {
  layerMap: MapData;
  layers: readonly number[];
} {
  return { layerMap: tokenMap, layers };
}
