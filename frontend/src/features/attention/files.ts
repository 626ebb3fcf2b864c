import { counted, idsOf, mapArrays, threeMaps } from '../../core/registry/arrays';
import type { ExportArray, ExportAxis, Facts, FrameFiles } from '../../core/registry/files';
import { compressorName } from '../../core/store/compressors';
import { type AttentionFrame, kMeanHead } from './frame';
import { headFact, headName } from './head_name';

export const kAttentionFiles: FrameFiles<AttentionFrame> = {
  arraysOf: attentionArrays,
  pairArraysOf: ({ a, maps }) => {
    const queries: ExportAxis = { name: 'query', labels: [...a.queryPositions] };
    return threeMaps('attention', maps, queries, keyAxis(a));
  },
  factsOf: (_, { head, heads }, extent): Facts => {
    if (extent === 'all') return { heads };
    return { head: head === kMeanHead ? headFact(head) : head };
  },
  placeOf: (_, { head }, extent) => (extent === 'one' ? ` · ${headName(head)}` : ''),
};

function attentionArrays(frame: AttentionFrame): readonly ExportArray[] {
  const queries: ExportAxis = { name: 'query', labels: [...frame.queryPositions] };
  const keys = keyAxis(frame);
  const heads = frame.small.length > 0 ? frame.small : [frame.map];
  return [
    ...heads.flatMap((map, head) =>
      mapArrays(`attention_head_${head}`, 'as on the wire', map, queries, keys),
    ),
    ...idsOf(frame, keys),
  ];
}

/** The axis of the keys, or of the tiles of keys. */
function keyAxis({ compressor, map, positions }: AttentionFrame): ExportAxis {
  if (compressorName(compressor) === 'tile') return { name: 'tile', labels: counted(map.cols) };
  return { name: 'key', labels: [...positions] };
}
