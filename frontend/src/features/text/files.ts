import { counted, idsOf, mapArrays, positionAxis } from '../../core/registry/arrays';
import type { ExportArray, ExportAxis, FrameFiles } from '../../core/registry/files';
import type { MapData } from '../../core/store/map_data';
import type { TopKFrame } from './frame';
import { standingsOf } from './predictions';

export const kTopKFiles: FrameFiles<TopKFrame> = {
  arraysOf: (frame) => {
    const positions = positionAxis(frame);
    return [
      ...bestArrays('', frame.map, frame.ids, positions),
      ...idsOf(frame, positions),
      ...standingArrays(frame, positions),
    ];
  },
  pairArraysOf: ({ a, b, maps }) => {
    const positions = positionAxis(a);
    const ranks: ExportAxis = { name: 'rank', labels: counted(a.map.rows, 1) };
    return [
      ...bestArrays('_a', a.map, a.ids, positions),
      ...bestArrays('_b', b.map, b.ids, positions),
      ...mapArrays('values_difference', 'A − B', maps.difference, ranks, positions),
    ];
  },
};

function bestArrays(
  suffix: string,
  map: MapData,
  ids: Int32Array,
  positions: ExportAxis,
): readonly ExportArray[] {
  const ranks: ExportAxis = { name: 'rank', labels: counted(map.rows, 1) };
  const axes = [ranks, positions];
  const shape = [map.rows, map.cols];
  return [
    ...mapArrays(`values${suffix}`, 'as on the wire', map, ranks, positions),
    {
      name: `ids${suffix}`,
      text: 'columns (of Logits: token ids)',
      axes,
      shape,
      data: ids.slice(),
    },
  ];
}

function standingArrays(frame: TopKFrame, positions: ExportAxis): readonly ExportArray[] {
  const standings = standingsOf(frame);
  if (standings === null || frame.query.pointName !== 'Logits') return [];
  // The rank from 1 as it is shown; 0 beyond the k, -1 where the next token is not known.
  const data = Int32Array.from(standings, ({ rank }) => (rank === null ? -1 : rank + 1));
  return [
    {
      name: 'next_rank',
      text: 'rank of the true next token; 0: beyond the k, -1: not known',
      axes: [positions],
      shape: [data.length],
      data,
    },
  ];
}
