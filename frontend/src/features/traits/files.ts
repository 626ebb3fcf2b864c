import { idsOf, layerAxis, mapArrays, positionAxis } from '../../core/registry/arrays';
import type { ExportArray, FrameFiles } from '../../core/registry/files';
import { compressorFor } from '../../core/session/plan_book.svelte';
import type { TraitsFrame } from './frame';
import { traitMap, traitsOf } from './trait_series';

export const kTraitsFiles: FrameFiles<TraitsFrame> = {
  arraysOf: (frame) => [
    ...Array.from({ length: frame.vectors }, (_, index) => seriesArrays(frame, index)).flat(),
    ...mapArrays(
      'projection',
      `of one row on vector ${frame.vector}`,
      frame.layerMap,
      layerAxis(frame),
      positionAxis(frame),
    ),
    ...idsOf(frame, positionAxis(frame)),
  ],
  factsOf: (session, frame) => {
    const traits = traitsOf(frame.vectors, compressorFor(session, frame)?.vectors);
    return {
      vectors: traits.map(({ name }) => name).join(', '),
      steps: 'all steps that the page keeps',
    };
  },
  placeOf: () => ' · traits',
  hasAllLayers: true,
  isSum: true,
};

function seriesArrays(frame: TraitsFrame, index: number): readonly ExportArray[] {
  const steps = { name: 'step', labels: frame.overSteps.steps };
  return (['mean', 'last'] as const).flatMap((over) =>
    mapArrays(
      `vector${index}_${over}`,
      over === 'mean'
        ? 'mean over all tokens of all rows'
        : 'mean over the last tokens of the rows',
      traitMap(frame, index, over, false),
      layerAxis(frame),
      steps,
    ),
  );
}
