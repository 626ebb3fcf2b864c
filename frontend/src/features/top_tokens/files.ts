import { counted } from '../../core/registry/arrays';
import type { ExportArray, FrameFiles } from '../../core/registry/files';
import { compressorFor } from '../../core/session/plan_book.svelte';
import type { TopToken, TopTokensFrame } from './frame';
import { unitName } from './units';

export const kTopTokensFiles: FrameFiles<TopTokensFrame> = {
  arraysOf: ({ best }) => {
    const ranks = { name: 'rank', labels: counted(best.length, 1) };
    const width = best[0]?.ids.length ?? 0;
    const of = (name: string, text: string, number: (token: TopToken) => number): ExportArray => ({
      ...{ name, text, axes: [ranks], shape: [best.length] },
      data: Float64Array.from(best, number),
    });
    return [
      of('value', 'of the token', ({ value }) => value),
      of('step', 'of the token', ({ step }) => step),
      of('row', 'of the global batch, or of the prompt set', ({ row }) => row),
      of('position', 'in the row', ({ position }) => position),
      {
        name: 'ids',
        text: 'token ids, the token in the middle; -1: none',
        axes: [ranks, { name: 'place', labels: counted(width) }],
        shape: [best.length, width],
        data: Int32Array.from(best.flatMap(({ ids }) => ids)),
      },
    ];
  },
  factsOf: (session, frame) => ({ unit: unitName(compressorFor(session, frame), frame.unit) }),
  placeOf: (session, frame) => ` · ${unitName(compressorFor(session, frame), frame.unit)}`,
};
