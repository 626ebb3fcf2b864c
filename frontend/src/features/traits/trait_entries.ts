import { queryOf } from '../../core/session/queries';
import type { Session } from '../../core/session/session';
import { closest, phaseOf, type WatchedEntry, watchedEntries } from '../../core/session/watched';
import type { ViewQuery } from '../../core/store/frames';
import type { OtherRunFacts } from '../../protocol/messages';

/** The entries whose records are projections. */
export function traitEntries(watched: readonly WatchedEntry[]): readonly WatchedEntry[] {
  return watched.filter(({ form }) => form === 'projection');
}

/**
 * The entry at the final norm with the same projections as an entry at the hidden states. The last row
 * of a vector belongs to the output of the final norm, so this entry is the last row of a map of layers.
 */
export function normEntry(
  watched: readonly WatchedEntry[],
  point: WatchedEntry,
): WatchedEntry | undefined {
  if (point.facts.name !== 'HiddenStates') return undefined;
  const wanted = projectionsOf(point);
  return traitEntries(watched).find(
    (each) => each.facts.name === 'FinalNorm' && projectionsOf(each) === wanted,
  );
}

/** All members of an entry that change its numbers, apart from its place. */
function projectionsOf(entry: WatchedEntry): string {
  const { promptSet, phases, direction, meanOver, hasResponses, firstToken, compressor } = entry;
  const { vectors, normalize = true, cosine = false } = compressor;
  return JSON.stringify([
    ...[promptSet, phases, direction, meanOver, hasResponses, firstToken],
    ...[vectors, normalize, cosine],
  ]);
}

/** The members of the session that the queries need. */
export type TraitsSession = Pick<
  Session,
  'view' | 'point' | 'plan' | 'phase' | 'layer' | 'until' | 'everyOf'
>;

export function areTraitsShown({ tab, traitsPart }: Session['view']): boolean {
  return tab === 'traits' && traitsPart === 'run';
}

/** The query of the main view; null if it shows no traits. */
export function traitsQuery(session: TraitsSession): ViewQuery | null {
  const { view, point } = session;
  return point === null || view.traitsPart !== 'run' ? null : ownQuery(session, point);
}

/** The query of an entry of the own run. */
export function ownQuery(session: TraitsSession, entry: WatchedEntry): ViewQuery {
  const { view, plan, phase, layer, until } = session;
  const asked = { plan: plan?.number ?? 0, phase, layer, step: view.step, until, run: '' };
  const every = session.everyOf(entry, phase);
  return {
    ...queryOf(entry, { ...view, layout: 'over', pin: null }, { ...asked, every }),
    ...traitsOfEntry(entry),
  };
}

/** The members by which the worker builds the traits of an entry. */
function traitsOfEntry({ meanOver }: WatchedEntry): Pick<ViewQuery, 'traits' | 'ofResponses'> {
  return { traits: true, ofResponses: meanOver === 'response' };
}

/** The entry of another run that has the name of the shown entry. */
export function entryBeside(run: OtherRunFacts, point: WatchedEntry): WatchedEntry | undefined {
  return traitEntries(watchedOf(run)).find(({ name }) => name === point.name);
}

export function watchedOf({ facts }: OtherRunFacts): readonly WatchedEntry[] {
  return watchedEntries(facts, facts.plan ?? null);
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
