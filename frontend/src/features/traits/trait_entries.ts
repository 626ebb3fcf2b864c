import { queryOf } from '../../core/session/queries';
import type { Session } from '../../core/session/session';
import { closest, phaseOf, type WatchedEntry, watchedEntries } from '../../core/session/watched';
import type { ViewQuery } from '../../core/store/frames';
import type { OtherRunFacts } from '../../protocol/messages';

/** The entries whose records are projections. */
export function traitEntries(watched: readonly WatchedEntry[]): readonly WatchedEntry[] {
  return watched.filter(({ form }) => form === 'projection');
}

/** The members of the session that the queries need. */
export type TraitsSession = Pick<
  Session,
  'view' | 'point' | 'plan' | 'phase' | 'layer' | 'until' | 'everyOf'
>;

/** The query of the main view; null if it shows no traits. */
export function traitsQuery(session: TraitsSession): ViewQuery | null {
  const { view, point, plan, phase, layer, until } = session;
  if (point === null || view.traitsPart !== 'run') return null;
  const asked = { plan: plan?.number ?? 0, phase, layer, step: view.step, until, run: '' };
  const every = session.everyOf(point, phase);
  return {
    ...queryOf(point, { ...view, layout: 'over', pin: null }, { ...asked, every }),
    ...traitsOfEntry(point),
  };
}

/** The members by which the worker builds the traits of an entry. */
function traitsOfEntry({ meanOver }: WatchedEntry): Pick<ViewQuery, 'traits' | 'ofResponses'> {
  return { traits: true, ofResponses: meanOver === 'response' };
}

/** The entry of another run that has the name of the shown entry. */
export function entryBeside(run: OtherRunFacts, point: WatchedEntry): WatchedEntry | undefined {
  const watched = traitEntries(watchedEntries(run.facts, run.facts.plan ?? null));
  return watched.find(({ name }) => name === point.name);
}

/**
 * The query of the run beside. `step` null is its newest step, and a later step too: a recording gets
 * no new steps. The chosen trait is that with the same name.
 */
export function besideQuery(
  session: TraitsSession,
  run: OtherRunFacts,
  entry: WatchedEntry,
  step: number | null,
): ViewQuery {
  const { view, point } = session;
  const phase = phaseOf(entry.phases, view.phase);
  const name = point?.compressor.vectors?.[view.vector] ?? '';
  const query = queryOf(
    entry,
    { ...view, layout: 'over', pin: null },
    {
      plan: run.facts.plan?.number ?? 0,
      phase,
      layer: closest(entry.layers, view.layer),
      step: Math.min(step ?? run.last_step, run.last_step),
      until: null,
      every: session.everyOf(entry, phase),
      run: run.id,
    },
  );
  const vector = Math.max(0, entry.compressor.vectors?.indexOf(name) ?? 0);
  return { ...query, ...traitsOfEntry(entry), vector };
}
