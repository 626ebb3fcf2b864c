import { chunk } from '../../core/registry/chunks';
import type { Command } from '../../core/registry/commands';
import type { Feature } from '../../core/registry/feature';
import type { Session } from '../../core/session/session';
import { tracingOf } from '../../ui/tracing';
import { kUrl } from './url';

/** The form of the trace plan. */
export const kPlan: Feature = {
  url: kUrl,
  commandsOf,
  tabs: [
    {
      tab: 'plan',
      name: 'Plan',
      text: 'What is traced: points, layers, rate, compressor',
      panel: { later: chunk(() => import('./plan_tab.svelte')) },
    },
  ],
};

/** The commands of points that are not traced. They are listed with the traced points, in grey. */
function commandsOf(session: Session): readonly Command[] {
  const tracing = tracingOf(session);
  return tracing.untraced.map(({ name }) => ({
    id: `trace-${name}`,
    group: 'Show',
    text: `Point ${name}: not traced, trace it`,
    isMuted: true,
    hindrance: tracing.hindrance,
    run: () => {
      if (session.view.tab === 'plan') session.show({ tab: 'tensors' });
      void tracing.trace(name);
    },
  }));
}
