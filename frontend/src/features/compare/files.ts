import type { Exported } from '../../core/registry/files';
import { viewOf } from '../../core/registry/registry';
import type { Session } from '../../core/session/session';
import { factsOfBoth, fileName, frameFacts, placeOf, runFacts } from '../../ui/file_facts';
import { comparisonOf } from './comparison.svelte';

/** A, B and A − B. */
export async function exportedComparison(session: Session): Promise<Exported> {
  const { compared, a, b } = comparisonOf(session);
  const base = { name: fileName(session, 'compare'), title: 'Compare', facts: runFacts(session) };
  if (compared.pair === null) return { ...base, arrays: [] };
  const { pair } = compared;
  const nameOf = (side: typeof a): string => side.run?.name ?? session.run?.name ?? '';
  const idOf = (side: typeof a): string => side.run?.id ?? session.run?.id ?? '';
  const point = session.pointNameOf(pair.a);
  const where = await placeOf(session, pair.a, 'one');
  return {
    name: fileName(session, `${point}${where.file}-step${pair.a.step}-minus-step${pair.b.step}`),
    title: `${point}${where.text} · A: ${nameOf(a)}, step ${pair.a.step} · B: ${nameOf(b)}, step ${pair.b.step}`,
    facts: {
      ...runFacts(session),
      ...factsOfBoth(
        await frameFacts(session, pair.a, 'one'),
        await frameFacts(session, pair.b, 'one'),
      ),
      a: `run ${nameOf(a)} (${idOf(a)}), ${a.phase}, step ${pair.a.step}`,
      b: `run ${nameOf(b)} (${idOf(b)}), ${b.phase}, step ${pair.b.step}`,
      difference: 'A − B',
    },
    arrays: (await viewOf(pair).files?.())?.pairArraysOf?.(pair) ?? [],
  };
}
