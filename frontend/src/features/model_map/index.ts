import { chunk } from '../../core/registry/chunks';
import type { Feature } from '../../core/registry/feature';
import { layersQuery, modelStateOf } from './model_state.svelte';

/** The model as boxes. A click on a box opens its layer. */
export const kModelMap: Feature = {
  tabs: [
    {
      tab: 'model',
      name: 'Model',
      text: 'The model as a map: embedding, layers, head',
      panel: { later: chunk(() => import('./model_tab.svelte')) },
      queryOf: layersQuery,
    },
  ],
  start: modelStateOf,
};
