import { counted, idsOf, layerAxis, mapArrays, positionAxis } from '../../core/registry/arrays';
import type { FrameFiles } from '../../core/registry/files';
import type { HealthFrame } from './frame';
import { kMeasures } from './measures';

export const kHealthFiles: FrameFiles<HealthFrame> = {
  arraysOf: (frame) => {
    const layers = layerAxis(frame);
    const { steps, values } = frame.overSteps;
    return [
      {
        name: 'by_head',
        text: kMeasures[frame.query.pointName].unit,
        axes: [layers, { name: 'head', labels: counted(frame.heads) }],
        shape: [frame.layers.length, frame.heads],
        data: frame.byHead.slice(),
      },
      ...mapArrays('by_token', 'of one head', frame.tokenMap, layers, positionAxis(frame)),
      ...idsOf(frame, positionAxis(frame)),
      {
        name: 'by_step',
        text: 'of one head, over the kept steps',
        axes: [layers, { name: 'step', labels: [...steps] }],
        shape: [frame.layers.length, steps.length],
        data: Float64Array.from(values.flat(), (value) => value ?? Number.NaN),
      },
    ];
  },
  factsOf: (_, frame) => ({ head: frame.head, steps: 'the steps that the page keeps' }),
  placeOf: (_, frame) => ` · head ${frame.head}`,
  hasAllLayers: true,
};
