import { chunk } from '../../core/registry/chunks';
import type { Command } from '../../core/registry/commands';
import type { Feature } from '../../core/registry/feature';
import type { Session } from '../../core/session/session';
import { comparisonOf } from './comparison.svelte';
import { kUrl } from './url';

/** Two steps, phases or runs side by side. */
export const kCompare: Feature = {
  url: kUrl,
  tabs: [
    {
      tab: 'compare',
      name: 'Compare',
      text: 'Two steps, phases or runs: A, B and A − B',
      panel: { later: chunk(() => import('./compare_tab.svelte')) },
      queryOf: (session) => comparisonOf(session).sideA.query,
      trackOf: (session) => comparisonOf(session).a.track,
      hasNumbers: (session) => comparisonOf(session).compared.pair !== null,
      files: async () => (await import('./files')).exportedComparison,
    },
  ],
  typedCommand,
  start: comparisonOf,
};

/** The command of a typed text such as "b step 40". */
function typedCommand(session: Session, typed: string): Command | undefined {
  const match = /^\s*(?:go to\s+)?([ab])\s+step\s+(\d{1,15})\s*$/i.exec(typed);
  const step = Number(match?.[2] ?? 0);
  if (match === null || step < 1) return undefined;
  const side = match[1].toLowerCase() === 'b' ? 'B' : 'A';
  const about = { id: `step-${step}`, group: 'Step' as const, text: `${side}: Show step ${step}` };
  return { ...about, run: () => comparisonOf(session).choose(side, { step }) };
}
