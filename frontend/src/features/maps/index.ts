import { chunk } from '../../core/registry/chunks';
import type { Command } from '../../core/registry/commands';
import { type Feature, frameView } from '../../core/registry/feature';
import type { Session } from '../../core/session/session';
import { layerPair, pairOf } from '../../core/store/frame_pair';
import CellSwitches from './cell_switches.svelte';
import type { LayersFrame, MapsFrame, OverFrame } from './frame';
import { kPageCompressors } from './page_compressor';
import { kUrl } from './url';

/** Heat maps of columns and tiles: of one layer, of all layers, over the steps. */
export const kMaps: Feature = {
  url: kUrl,
  compressors: kPageCompressors,
  viewTools: [CellSwitches],
  plan: async () => (await import('./plan')).kPlan,
  views: [
    frameView<MapsFrame>({
      kind: 'maps',
      panel: { later: chunk(() => import('./layer_tile_maps.svelte')) },
      files: async () => (await import('./files')).kMapsFiles,
      compare: {
        shapeOf: ({ tiles, tileMap }) => `${tiles} tiles × ${tileMap.cols} tokens`,
        pairOf: (base) => ({
          ...base,
          kind: 'maps',
          layerMaps: layerPair(base.a, base.b, base.layers),
          tileMaps: pairOf(base.a.tileMap, base.b.tileMap),
        }),
        panel: { later: chunk(() => import('./compare_maps.svelte')) },
      },
    }),
    frameView<LayersFrame>({
      kind: 'layers',
      panel: { later: chunk(() => import('./layer_maps.svelte')) },
      files: async () => (await import('./files')).kLayersFiles,
    }),
    frameView<OverFrame>({
      kind: 'over',
      panel: { later: chunk(() => import('./over_map.svelte')) },
      files: async () => (await import('./files')).kOverFiles,
    }),
  ],
  commandsOf,
};

function commandsOf(session: Session): readonly Command[] {
  const isMean = session.view.aggregate === 'mean';
  return [
    {
      id: 'aggregate',
      group: 'Show',
      text: isMean ? 'Cells: largest |x| of the tiles' : 'Cells: mean of tiles',
      keys: ['a'],
      match: ['a'],
      run: () => session.show({ aggregate: isMean ? 'absmax' : 'mean', layerLock: null }),
    },
  ];
}
