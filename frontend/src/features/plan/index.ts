import { chunk } from '../../core/registry/chunks';
import type { Feature } from '../../core/registry/feature';

/** What is traced: the form of the trace plan. */
export const kPlan: Feature = {
  tabs: [
    {
      tab: 'plan',
      name: 'Plan',
      text: 'What is traced: points, layers, rate, compressor',
      panel: { later: chunk(() => import('./plan_tab.svelte')) },
    },
  ],
};
