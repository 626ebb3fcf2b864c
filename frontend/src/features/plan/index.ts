import { chunk } from '../../core/registry/chunks';
import type { Feature } from '../../core/registry/feature';
import { kUrl } from './url';

/** What is traced: the form of the trace plan. */
export const kPlan: Feature = {
  url: kUrl,
  tabs: [
    {
      tab: 'plan',
      name: 'Plan',
      text: 'What is traced: points, layers, rate, compressor',
      panel: { later: chunk(() => import('./plan_tab.svelte')) },
    },
  ],
};
