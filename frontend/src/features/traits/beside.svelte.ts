import type { Follower } from '../../core/registry/feature';
import { stateOf } from '../../core/registry/state_of';
import type { Session } from '../../core/session/session';
import type { WatchedEntry } from '../../core/session/watched';
import type { EmptyView, View, ViewQuery } from '../../core/store/frames';
import type { Slot } from '../../core/worker/link_messages';
import type { OtherRunFacts } from '../../protocol/messages';
import type { TraitsFrame } from './frame';
import {
  areTraitsShown,
  besideQuery,
  entryBeside,
  normEntry,
  type TraitsSession,
  watchedOf,
} from './trait_entries';

type BesideSession = TraitsSession & Pick<Session, 'otherRuns' | 'link'>;

/** The traits of a second run, which stand beside those of the own run. */
export class Beside implements Follower {
  private held = $state.raw<TraitsFrame | null>(null);
  private empty = $state.raw<EmptyView | null>(null);
  private sent = 'null';
  /**
   * The run and the entry whose newest step has arrived. Past steps are fetched backwards from the
   * first step that was asked for, so the newest step must be the first.
   */
  private begun = '';

  constructor(private readonly session: BesideSession) {}

  /** The chosen run; null if none is chosen, or if the hub does not offer it. */
  get run(): OtherRunFacts | null {
    return this.session.otherRuns.find(({ id }) => id === this.session.view.runB) ?? null;
  }

  get frame(): TraitsFrame | null {
    const { held, entry } = this;
    const isShown = held?.query.run === this.run?.id && held?.query.entry === entry?.entry;
    return isShown ? held : null;
  }

  /** The reason why there is no frame; '' if there is one, or if no run is chosen. */
  get problem(): string {
    const { run, entry, empty, frame, session } = this;
    const { runB } = session.view;
    if (runB === '' || frame !== null) return '';
    if (run === null) {
      return `The hub offers no run ${runB}: it is not in this run's folder. Start the hub with --compare FILE.`;
    }
    if (entry === undefined) return `${run.name} does not trace ${session.point?.name ?? ''}.`;
    const isWaiting = empty === null || empty.reason === 'fetching' || empty.reason === 'loading';
    if (isWaiting) return `Loading ${run.name}.`;
    if (empty.reason === 'unreadable') return `The records of ${run.name} cannot be shown.`;
    return `${run.name} has no kept projections of this entry.`;
  }

  sendQuery(): void {
    const query = this.query();
    const text = JSON.stringify(query);
    if (text === this.sent) return;
    this.sent = text;
    if (query === null) {
      this.held = this.empty = null;
      this.begun = '';
    }
    this.session.link.query('beside', query);
  }

  onView(slot: Slot, view: View): void {
    if (slot !== 'beside') return;
    this.held = 'frame' in view && view.frame.kind === 'traits' ? view.frame : null;
    this.empty = 'empty' in view ? view.empty : null;
    if (this.frame === null) return;
    this.begun = this.key();
    this.sendQuery();
  }

  /** The query of the entry at the final norm; null if there is none. `hasBegun`: its newest step has arrived. */
  normQuery(hasBegun: boolean): ViewQuery | null {
    const { session, run, entry } = this;
    if (!areTraitsShown(session.view) || run === null || entry === undefined) return null;
    const norm = normEntry(watchedOf(run), entry);
    const step = hasBegun ? session.view.step : null;
    return norm === undefined ? null : besideQuery(session, run, norm, step);
  }

  private get entry(): WatchedEntry | undefined {
    const { point } = this.session;
    return this.run === null || point === null ? undefined : entryBeside(this.run, point);
  }

  private query(): ViewQuery | null {
    const { session, run, entry } = this;
    if (!areTraitsShown(session.view) || run === null || entry === undefined) return null;
    const step = this.begun === this.key() ? session.view.step : null;
    return besideQuery(session, run, entry, step);
  }

  private key(): string {
    return `${this.run?.id ?? ''}/${this.entry?.name ?? ''}`;
  }
}

export const besideOf = stateOf((session) => new Beside(session));
