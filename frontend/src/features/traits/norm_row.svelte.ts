import type { Follower } from '../../core/registry/feature';
import { stateOf } from '../../core/registry/state_of';
import type { Session } from '../../core/session/session';
import type { WatchedEntry } from '../../core/session/watched';
import type { View, ViewQuery } from '../../core/store/frames';
import type { Slot } from '../../core/worker/link_messages';
import { besideOf } from './beside.svelte';
import type { TraitsFrame } from './frame';
import { areTraitsShown, normEntry, ownQuery, type TraitsSession } from './trait_entries';

/** The traits at the final norm, which are the last row of a map of layers. */
export class NormRow implements Follower {
  private held = $state.raw<TraitsFrame | null>(null);
  private sent = 'null';
  /** The entry whose newest step has arrived; as in `Beside`. */
  private begun = '';

  constructor(
    private readonly link: Pick<Session['link'], 'query'>,
    private readonly slot: Slot,
    private readonly ask: (hasBegun: boolean) => ViewQuery | null,
  ) {}

  /** Null if there is no such entry, or if its records have not arrived. */
  get frame(): TraitsFrame | null {
    const { held } = this;
    const wanted = this.ask(true);
    return held !== null && wanted !== null && keyOf(held.query) === keyOf(wanted) ? held : null;
  }

  sendQuery(): void {
    const first = this.ask(false);
    const query = first !== null && keyOf(first) === this.begun ? this.ask(true) : first;
    const text = JSON.stringify(query);
    if (text === this.sent) return;
    this.sent = text;
    if (query === null) this.held = null;
    this.link.query(this.slot, query);
  }

  onView(slot: Slot, view: View): void {
    if (slot !== this.slot) return;
    this.held = 'frame' in view && view.frame.kind === 'traits' ? view.frame : null;
    if (this.held === null) return;
    this.begun = keyOf(this.held.query);
    this.sendQuery();
  }
}

function keyOf({ run, entry, plan }: ViewQuery): string {
  return [run, plan, entry].join('/');
}

/** The entry at the final norm that belongs to the shown entry. */
export function ownNormEntry(
  session: TraitsSession & Pick<Session, 'watched'>,
): WatchedEntry | undefined {
  const { view, point, watched } = session;
  return point === null || !areTraitsShown(view) ? undefined : normEntry(watched, point);
}

function ownNormQuery(session: Session): ViewQuery | null {
  const entry = ownNormEntry(session);
  return entry === undefined ? null : ownQuery(session, entry);
}

export const normRowOf = stateOf(
  (session) => new NormRow(session.link, 'norm', () => ownNormQuery(session)),
);

export const besideNormRowOf = stateOf(
  (session) =>
    new NormRow(session.link, 'besideNorm', (hasBegun) => besideOf(session).normQuery(hasBegun)),
);
