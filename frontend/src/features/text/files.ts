import { counted, idsOf, mapArrays, positionAxis } from '../../core/registry/arrays';
import type { ExportArray, ExportAxis, FrameFiles } from '../../core/registry/files';
import type { MapData } from '../../core/store/map_data';
import type { Softmax } from '../../core/store/softmax';
import type { TopKFrame } from './frame';
import type { Divergences } from './pair';
import { standingsOf } from './predictions';

export const kTopKFiles: FrameFiles<TopKFrame> = {
  arraysOf: (frame) => {
    const positions = positionAxis(frame);
    return [
      ...bestArrays('', frame.map, frame.ids, positions),
      ...idsOf(frame, positions),
      ...standingArrays(frame, positions),
      ...softmaxArrays('', frame.softmax, positions),
    ];
  },
  pairArraysOf: ({ a, b, maps, divergences }) => {
    const positions = positionAxis(a);
    const ranks: ExportAxis = { name: 'rank', labels: counted(a.map.rows, 1) };
    return [
      ...bestArrays('_a', a.map, a.ids, positions),
      ...bestArrays('_b', b.map, b.ids, positions),
      ...mapArrays('values_difference', 'A − B', maps.difference, ranks, positions),
      ...softmaxArrays('_a', a.softmax, positions),
      ...softmaxArrays('_b', b.softmax, positions),
      ...divergenceArrays(divergences, positions),
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

function softmaxArrays(
  suffix: string,
  softmax: Softmax | null,
  positions: ExportAxis,
): readonly ExportArray[] {
  if (softmax === null) return [];
  const { logSumExp, entropy, loss, target } = softmax;
  return [
    byToken(`log_sum_exp${suffix}`, 'of all scores', logSumExp, positions),
    byToken(`entropy${suffix}`, 'of the prediction, in nats', entropy, positions),
    byToken(`loss${suffix}`, 'of the target, in nats; NaN: no target is known', loss, positions),
    byToken(`target${suffix}`, 'token that follows; -1: not known', target, positions),
  ];
}

function divergenceArrays(
  divergences: Divergences | null,
  positions: ExportAxis,
): readonly ExportArray[] {
  if (divergences === null) return [];
  const { nats, isExact } = divergences;
  return [byToken('divergence', `KL(A‖B) in nats${isExact ? '' : ', at least'}`, nats, positions)];
}

function byToken(
  name: string,
  text: string,
  data: Float64Array<ArrayBuffer> | Int32Array<ArrayBuffer>,
  positions: ExportAxis,
): ExportArray {
  return { name, text, axes: [positions], shape: [data.length], data: data.slice() };
}

function standingArrays(frame: TopKFrame, positions: ExportAxis): readonly ExportArray[] {
  const standings = standingsOf(frame);
  if (standings === null || frame.query.pointName !== 'Logits') return [];
  // The rank from 1, as the page shows it; 0: beyond the k; -1: the next token is not known.
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
