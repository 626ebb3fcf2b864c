import {
  counted,
  idsOf,
  layerAxis,
  mapArrays,
  positionAxis,
  threeMaps,
} from '../../core/registry/arrays';
import type { ExportArray, ExportAxis, FrameFiles } from '../../core/registry/files';
import type { MapData } from '../../core/store/map_data';
import type { LayersFrame, MapsFrame, OverFrame } from './frame';

/** The files of one layer: the layer map and the layer's tiles. */
export const kMapsFiles: FrameFiles<MapsFrame> = {
  arraysOf: (frame) => tileArrays(frame, layerAxis(frame), positionAxis(frame)),
  pairArraysOf: (pair) => {
    const positions = positionAxis(pair.a);
    const tiles: ExportAxis = { name: 'tile', labels: counted(pair.a.tiles) };
    return [
      ...threeMaps('layers', pair.layerMaps, layerAxis(pair), positions),
      ...threeMaps('tiles', pair.tileMaps, tiles, positions),
    ];
  },
};

/** The files of all layers. */
export const kLayersFiles: FrameFiles<LayersFrame> = {
  hasAllLayers: true,
  arraysOf: (frame) => [
    ...frame.maps.flatMap((map, at) => layerArrays(frame.layers[at], map, positionAxis(frame))),
    ...idsOf(frame, positionAxis(frame)),
  ],
};

/** The files of the summary over the steps. */
export const kOverFiles: FrameFiles<OverFrame> = {
  hasAllLayers: true,
  isSum: true,
  factsOf: () => ({ steps: 'all steps that the page keeps' }),
  arraysOf: (frame) => {
    const steps: ExportAxis = { name: 'step', labels: frame.columns };
    const fold = frame.query.aggregate === 'mean' ? 'mean' : 'largest |x|';
    const text = `${fold} over rows, tokens and tiles`;
    return mapArrays('over', text, frame.map, layerAxis(frame), steps);
  },
};

function tileArrays(
  frame: MapsFrame,
  layers: ExportAxis,
  positions: ExportAxis,
): readonly ExportArray[] {
  const tiles: ExportAxis = { name: 'tile', labels: counted(frame.tiles) };
  const fold = frame.query.aggregate === 'mean' ? 'mean' : 'largest |x|';
  return [
    ...mapArrays('layers', `${fold} over tiles`, frame.layerMap, layers, positions),
    ...mapArrays('tiles', 'as on the wire', frame.tileMap, tiles, positions),
    ...idsOf(frame, positions),
  ];
}

function layerArrays(
  layer: number,
  map: MapData | null,
  positions: ExportAxis,
): readonly ExportArray[] {
  if (map === null) return [];
  const tiles: ExportAxis = { name: 'tile', labels: counted(map.rows) };
  return mapArrays(`layer_${layer}`, 'as on the wire', map, tiles, positions);
}
