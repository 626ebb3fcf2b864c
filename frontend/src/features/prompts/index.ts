import { chunk } from '../../core/registry/chunks';
import type { Feature } from '../../core/registry/feature';
import { kUrl } from './url';

/** A typed prompt that runs through the model during the training. */
export const kPrompts: Feature = {
  url: kUrl,
  tabs: [
    {
      tab: 'prompts',
      name: 'Prompts',
      text: 'Type a prompt and see its values in the current model',
      panel: { later: chunk(() => import('./prompts_tab.svelte')) },
      hasNumbers: () => false,
    },
  ],
};
