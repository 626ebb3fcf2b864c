import { idsOf, layerAxis, mapArrays, positionAxis } from '../../core/registry/arrays';
import type { FrameFiles } from '../../core/registry/files';
import type { ContributionFrame } from './frame';
import { kContributionPoints } from './points';

export const kContributionFiles: FrameFiles<ContributionFrame> = {
  arraysOf: (frame) => {
    const layers = layerAxis(frame);
    const { steps, values } = frame.overSteps;
    const text = kContributionPoints[frame.query.pointName].unit;
    return [
      ...mapArrays('by_token', 'as on the wire', frame.tokenMap, layers, positionAxis(frame)),
      ...idsOf(frame, positionAxis(frame)),
      {
        ...{ name: 'by_layer', text, axes: [layers], shape: [frame.layers.length] },
        data: frame.byLayer.slice(),
      },
      {
        name: 'by_step',
        text: `${text}, over the kept steps`,
        axes: [layers, { name: 'step', labels: [...steps] }],
        shape: [frame.layers.length, steps.length],
        data: Float64Array.from(values.flat(), (value) => value ?? Number.NaN),
      },
    ];
  },
  factsOf: () => ({ steps: 'the steps that the page keeps' }),
  hasAllLayers: true,
};
