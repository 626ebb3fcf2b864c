import type { Feature } from '../../core/registry/feature';
import { viewOf } from '../../core/registry/registry';
import TensorsTab from './tensors_tab.svelte';

/** The tab of one entry of the plan: the view of its frames next to the curves. */
export const kTensors: Feature = {
  tabs: [
    {
      tab: 'tensors',
      name: 'Tensors',
      text: 'View of one entry of the trace plan',
      panel: { now: TensorsTab },
      hasNumbers: ({ frame }) => frame !== null && viewOf(frame).files !== undefined,
    },
  ],
};
