import type { WorkerFeature } from '../../core/worker/worker_feature';
import { kCompressors } from './compressor';
import type { ViewBuilder } from '../../core/store/view';
import type { LayersFrame, MapsFrame, OverFrame } from './frame';
import { layersView } from './layers_view';
import { mapsView } from './maps_view';
import { overView } from './over_view';

const kMaps: ViewBuilder<MapsFrame> = {
  kind: 'maps',
  form: 'values',
  fits: ({ query }) => query.layout === 'one',
  build: mapsView,
  buffersOf: ({ layerMap, tileMap }) => [layerMap.values.buffer, tileMap.values.buffer],
};

const kLayers: ViewBuilder<LayersFrame> = {
  kind: 'layers',
  form: 'values',
  fits: ({ query }) => query.layout === 'all',
  build: layersView,
  buffersOf: ({ maps }) => maps.flatMap((map) => map?.values.buffer ?? []),
};

const kOver: ViewBuilder<OverFrame> = {
  kind: 'over',
  form: 'values',
  fits: ({ query }) => query.layout === 'over',
  build: overView,
  buffersOf: ({ map, stepOf }) => [map.values.buffer, stepOf.buffer],
};

/** What the worker needs of this feature. */
export const kWorker: WorkerFeature = {
  compressors: kCompressors,
  builders: [kMaps, kLayers, kOver],
};
