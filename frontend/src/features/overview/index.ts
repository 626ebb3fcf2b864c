import { chunk } from '../../core/registry/chunks';
import { type Command, showCommand } from '../../core/registry/commands';
import type { Feature } from '../../core/registry/feature';
import type { Session } from '../../core/session/session';
import { keptRunsOf } from './kept_runs.svelte';
import { kUrl } from './url';

/** Curves, state and events of the run. */
export const kOverview: Feature = {
  tabs: [
    {
      tab: 'overview',
      name: 'Overview',
      text: 'Curves, state and events of the run',
      panel: { later: chunk(() => import('./overview_tab.svelte')) },
      hasNumbers: (session) => session.scalars().length > 0,
      files: async () => (await import('./files')).exportedCurves,
    },
  ],
  url: kUrl,
  commandsOf: curveCommands,
  start: keptRunsOf,
};

function curveCommands(session: Session): readonly Command[] {
  const { view } = session;
  const axis = (name: string, isLog: boolean): string =>
    `${name}: ${isLog ? 'linear' : 'logarithmic'} axis`;
  return [
    showCommand(session, 'log-loss', axis('Loss', view.logLoss), { logLoss: !view.logLoss }),
    showCommand(session, 'events', view.events ? 'Curves: hide events' : 'Curves: show events', {
      events: !view.events,
    }),
    showCommand(session, 'zoom', 'Curves: all steps', { zoom: null }),
    showCommand(session, 'log-x', axis('Steps', view.logX), { logX: !view.logX }),
    showCommand(session, 'log-grad', axis('Gradient', view.logGrad), { logGrad: !view.logGrad }),
  ];
}
