import { chunk } from '../../core/registry/chunks';
import { type Command, showCommand } from '../../core/registry/commands';
import { type Feature, frameView } from '../../core/registry/feature';
import type { Session } from '../../core/session/session';
import { besideOf } from './beside.svelte';
import type { TraitsFrame } from './frame';
import { besideNormRowOf, normRowOf } from './norm_row.svelte';
import { traitEntries, traitsQuery } from './trait_entries';
import { kUrl } from './url';

/** Traits, which are directions, over layers and steps; and training data that is ranked by them. */
export const kTraits: Feature = {
  url: kUrl,
  views: [
    frameView<TraitsFrame>({
      kind: 'traits',
      panel: { later: chunk(() => import('./traits_panel.svelte')) },
      files: async () => (await import('./files')).kTraitsFiles,
    }),
  ],
  tabs: [
    {
      tab: 'traits',
      name: 'Traits',
      text: 'Traits over layers and steps, and ranked training data',
      panel: { later: chunk(() => import('./traits_tab.svelte')) },
      pointsOf: traitEntries,
      queryOf: traitsQuery,
      hasNumbers: ({ frame, view }) => frame?.kind === 'traits' && view.traitsPart === 'run',
    },
  ],
  commandsOf,
  start: (session) => [besideOf(session), normRowOf(session), besideNormRowOf(session)],
};

function commandsOf(session: Session): readonly Command[] {
  const isDifference = session.view.traitsAs === 'difference';
  return [
    showCommand(session, 'ranked', 'Open ranked training data', {
      tab: 'traits',
      traitsPart: 'data',
    }),
    showCommand(session, 'traits-as', isDifference ? 'Traits: values' : 'Traits: difference', {
      tab: 'traits',
      traitsPart: 'run',
      traitsAs: isDifference ? 'value' : 'difference',
    }),
  ];
}
