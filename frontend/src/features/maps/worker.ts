import type { WorkerFeature } from '../../core/worker/worker_feature';
import { kCompressors } from './compressor';
import { laterBuilder, type ViewBuilder } from '../../core/store/view';
import type { LayersFrame, MapsFrame, OverFrame } from './frame';
import { mapsView } from './maps_view';

const kMaps: ViewBuilder<MapsFrame> = {
  kind: 'maps',
  form: 'values',
  fits: ({ query }) => query.layout === 'one',
  build: mapsView,
  buffersOf: ({ layerMap, tileMap }) => [layerMap.values.buffer, tileMap.values.buffer],
};

const kLayers = laterBuilder<LayersFrame>(
  { kind: 'layers', form: 'values', fits: ({ query }) => query.layout === 'all' },
  async () => ({
    build: (await import('./layers_view')).layersView,
    buffersOf: ({ maps }) => maps.flatMap((map) => map?.values.buffer ?? []),
  }),
);

const kOver = laterBuilder<OverFrame>(
  { kind: 'over', form: 'values', fits: ({ query }) => query.layout === 'over' },
  async () => ({
    build: (await import('./over_view')).overView,
    buffersOf: ({ map, stepOf }) => [map.values.buffer, stepOf.buffer],
  }),
);

/** The worker's part of this feature. */
export const kWorker: WorkerFeature = {
  compressors: kCompressors,
  builders: [kMaps, kLayers, kOver],
};
