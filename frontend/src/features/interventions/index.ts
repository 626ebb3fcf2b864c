import { chunk } from '../../core/registry/chunks';
import type { Command } from '../../core/registry/commands';
import type { Feature } from '../../core/registry/feature';
import { hindranceOf } from '../../core/session/controller.svelte';
import type { Session } from '../../core/session/session';
import Chip from './chip.svelte';
import { interventionsOf } from './interventions.svelte';
import { kUrl } from './url';

/** Programs that change values inside the model while it runs. */
export const kInterventions: Feature = {
  url: kUrl,
  tabs: [
    {
      tab: 'interventions',
      name: 'Interventions',
      text: 'Programs that change values inside the model while it runs',
      panel: { later: chunk(() => import('./interventions_tab.svelte')) },
    },
  ],
  chips: [Chip],
  commandsOf,
  start: interventionsOf,
};

function commandsOf(session: Session): readonly Command[] {
  const interventions = interventionsOf(session);
  const { programs } = interventions;
  const hindrance =
    session.replay === null ? hindranceOf(session.control) : 'a recording does not run the model';
  const revert = (id: string, what: string, name?: string): Command => ({
    ...{ id, text: `Revert ${what}`, hindrance },
    group: 'Run',
    run: () => void interventions.revert(name),
  });
  const each = programs.map(({ name }) =>
    revert(`revert-program-${name}`, `intervention ${name}`, name),
  );
  return programs.length === 0 ? [] : [revert('revert-all', 'all interventions'), ...each];
}
