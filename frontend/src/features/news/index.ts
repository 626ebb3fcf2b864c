import type { Feature, Follower } from '../../core/registry/feature';
import type { Session } from '../../core/session/session';
import type { Control, RunFacts } from '../../protocol/messages';
import { newsOf } from './news';

/** Shows the events of the run as toasts, in every view of the page. */
export const kNews: Feature = { start };

function start(session: Session): Follower {
  let programs: readonly string[] = [];
  // The holder of the last notification. `control.holder` may be newer, from the answer to a claim.
  let holder: Control['holder'] | undefined;
  return {
    onRun: (run: RunFacts) => {
      programs = (run.interventions ?? []).map(({ name }) => name);
      holder = undefined;
    },
    onNotification: (notification) => {
      const { control, plan, replay, runState } = session;
      const before = {
        phase: runState?.phase,
        holder: holder === undefined ? control.holder : holder,
        me: control.session,
        plan: plan?.number,
        programs,
        steps: control.waits('control.step'),
      };
      // A replay repeats old notifications.
      const news =
        replay === null ? newsOf(notification, before, () => void control.resume()) : undefined;
      if (news !== undefined) session.toasts.say(news);
      const { event, params } = notification;
      if (event === 'interventions') programs = params.programs.map(({ name }) => name);
      if (event === 'control') ({ holder } = params);
    },
  };
}
