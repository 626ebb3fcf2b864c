import type { Follower } from '../../core/registry/feature';
import { stateOf } from '../../core/registry/state_of';
import type { Program } from '../../protocol/interventions';
import type { Notification, RunFacts } from '../../protocol/messages';

/** The programs in force, for the marks of the map. */
class ActivePrograms implements Follower {
  all = $state.raw<readonly Program[]>([]);

  onRun({ interventions }: RunFacts): void {
    this.all = interventions ?? [];
  }

  onNotification({ event, params }: Notification): void {
    if (event === 'interventions') this.all = params.programs;
  }
}

export const activeProgramsOf = stateOf(() => new ActivePrograms());
