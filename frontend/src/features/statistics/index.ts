import { chunk } from '../../core/registry/chunks';
import { type Command, showCommand } from '../../core/registry/commands';
import { type Feature, frameView, type LayerSizes } from '../../core/registry/feature';
import type { Session } from '../../core/session/session';
import { kStatNames, type StatsFrame } from './frame';
import { curveName, kCurveNames } from './statistic';
import { kPageCompressors } from './page_compressor';
import { tablesOf } from './pair';
import StatsChoice from './stats_choice.svelte';
import { kUrl } from './url';

/** Moments and histograms of every layer, over the steps. */
export const kStatistics: Feature = {
  url: kUrl,
  compressors: kPageCompressors,
  viewTools: [StatsChoice],
  plan: async () => (await import('./plan')).kPlan,
  views: [
    frameView<StatsFrame>({
      kind: 'stats',
      panel: { later: chunk(() => import('./stats_view.svelte')) },
      files: async () => (await import('./files')).kStatsFiles,
      sizesOf: rmsOfLayers,
      compare: {
        shapeOf: () => '',
        pairOf: (base) => ({
          ...base,
          kind: 'stats',
          tables: tablesOf(base.a, base.b, base.layers),
        }),
        panel: { later: chunk(() => import('./compare_stats.svelte')) },
      },
    }),
  ],
  commandsOf,
};

function rmsOfLayers({ layers, table }: StatsFrame): LayerSizes {
  const rms = kStatNames.indexOf('rms');
  return new Map(layers.map((each, i) => [each, table[i * kStatNames.length + rms]]));
}

function commandsOf(session: Session): readonly Command[] {
  return kCurveNames.map((stat) => {
    const name = stat === 'bad' ? 'numbers that are not finite' : curveName(stat);
    return showCommand(session, `stat-${stat}`, `Statistic: ${name}`, { stat });
  });
}
