import { chunk } from '../../core/registry/chunks';
import type { Feature } from '../../core/registry/feature';
import type { Session } from '../../core/session/session';
import type { ViewQuery } from '../../core/store/frames';
import { queryOf } from '../../core/session/queries';
import { entryOfSizes } from './blocks';
import { activeProgramsOf } from './active_programs.svelte';

/** The model as boxes, each the way to its layer. */
export const kModelMap: Feature = {
  tabs: [
    {
      tab: 'model',
      name: 'Model',
      text: 'The model as a map: embedding, layers, head',
      panel: { later: chunk(() => import('./model_tab.svelte')) },
      queryOf: sizesQuery,
    },
  ],
  start: activeProgramsOf,
};

function sizesQuery(session: Session): ViewQuery | null {
  const entry = entryOfSizes(session.watched);
  if (entry === null) return null;
  const { view, plan, until, layer } = session;
  return queryOf(
    entry,
    { ...view, layout: 'one', row: 0 },
    {
      ...{ plan: plan?.number ?? 0, tokenizer: session.tokenizer, phase: 'train', layer, until },
      ...{ step: view.step, every: session.everyOf(entry, 'train'), run: '' },
    },
  );
}
