import type { OtherRunFacts } from '../../protocol/messages';
import { type Compared, compareFrames } from './compare';
import type { EmptyView, View, ViewFrame, ViewQuery } from '../../core/store/frames';
import { spacingOf } from '../../core/store/spacing';
import type { Follower } from '../../core/registry/feature';
import { stateOf } from '../../core/registry/state_of';
import type { Slot } from '../../core/worker/link_messages';
import type { Session } from '../../core/session/session';
import { differenceOf, type Held } from './meanings';
import { compressorFor } from '../../core/session/plan_book.svelte';
import { queryOf } from '../../core/session/queries';
import { type StepTrack, trackOf } from '../../core/session/step_track';
import type { ViewState } from '../../core/session/url_state';
import { closest, phaseOf, type WatchedEntry, watchedEntries } from '../../core/session/watched';

export type SideName = 'A' | 'B';

/** The choices of one side of the comparison, and its query. */
export interface Side {
  readonly name: SideName;
  /** Null: the hub's own run. */
  readonly run: OtherRunFacts | null;
  /** The id of the run in the URL. The hub may not offer this run. */
  readonly runId: string;
  readonly known: boolean;
  readonly entry: WatchedEntry | null;
  readonly phase: 'train' | 'eval';
  readonly step: number | null;
  readonly query: ViewQuery | null;
}

/** A side with its shown frame and its steps. */
export interface ShownSide extends Side {
  readonly frame: ViewFrame | null;
  readonly empty: EmptyView | null;
  readonly track: StepTrack;
  /** The page waits for a step from the history; until then it shows another step. */
  readonly fetching: boolean;
}

/** Two views side by side: A uses the page's main view, B uses the view in the slot `other`. */
export class Comparison implements Follower {
  frame = $state.raw<ViewFrame | null>(null);
  empty = $state.raw<EmptyView | null>(null);

  readonly sideA = $derived.by(() => this.ask('A'));
  readonly sideB = $derived.by(() => this.ask('B'));
  readonly a = $derived.by(() => this.shown(this.sideA, this.session.frame, this.session.empty));
  readonly b = $derived.by(() => this.shown(this.sideB, this.frame, this.empty));
  readonly compared = $derived.by(() => this.compare());
  /** Both sides show the same run, phase and step. */
  readonly same = $derived(
    this.a.runId === this.b.runId &&
      this.a.phase === this.b.phase &&
      this.a.frame?.step === this.b.frame?.step,
  );

  private sent = 'null';

  constructor(private readonly session: Session) {}

  get active(): boolean {
    return this.session.view.tab === 'compare';
  }

  choose(side: SideName, change: Partial<Pick<Side, 'runId' | 'phase' | 'step'>>): void {
    const { runId: run, phase, step } = change;
    // A step of one run has no meaning in another run.
    const stepThen = run === undefined ? step : null;
    this.session.show(
      side === 'A'
        ? {
            ...(run === undefined ? {} : { runA: run }),
            ...(phase === undefined ? {} : { phase }),
            ...(stepThen === undefined ? {} : { step: stepThen }),
          }
        : {
            ...(run === undefined ? {} : { runB: run }),
            ...(phase === undefined ? {} : { phaseB: phase }),
            ...(stepThen === undefined ? {} : { stepB: stepThen }),
          },
    );
  }

  sendQuery(): void {
    const query = this.active ? this.sideB.query : null;
    const text = JSON.stringify(query);
    if (text === this.sent) return;
    this.sent = text;
    if (query === null) this.frame = this.empty = null;
    this.session.link.query('other', query);
  }

  onView(slot: Slot, view: View): void {
    if (slot !== 'other' || !this.active) return;
    this.frame = 'frame' in view ? view.frame : null;
    this.empty = 'frame' in view ? null : view.empty;
  }

  private ask(name: SideName): Side {
    const { session } = this;
    const { view } = session;
    const [runId, wanted, step] =
      name === 'A'
        ? ([view.runA, view.phase, view.step] as const)
        : ([view.runB, view.phaseB, view.stepB] as const);
    const run = this.session.otherRuns.find(({ id }) => id === runId) ?? null;
    const known = runId === '' || run !== null;
    const entry = !known || session.point === null ? null : this.entryOf(run, session.point);
    const phase = phaseOf(entry?.phases ?? [], wanted);
    const side = { name, run, runId, known, entry, phase, step };
    return { ...side, query: entry === null ? null : this.queryOf(side, entry) };
  }

  /** The entry of another run that has the name of the shown entry. */
  private entryOf(run: OtherRunFacts | null, point: WatchedEntry): WatchedEntry | null {
    if (run === null) return point;
    const watched = watchedEntries(run.facts, run.facts.plan ?? null);
    return watched.find(({ name }) => name === point.name) ?? null;
  }

  private queryOf({ run, phase, step }: Omit<Side, 'query'>, entry: WatchedEntry): ViewQuery {
    const { session } = this;
    const view: ViewState = { ...session.view, layout: 'one', pin: null };
    return queryOf(entry, view, {
      plan: (run === null ? session.plan?.number : run.facts.plan?.number) ?? 0,
      phase,
      layer: closest(entry.layers, session.view.layer),
      // A recording gets no new steps: its last step is known.
      step: run === null ? step : Math.min(step ?? run.last_step, run.last_step),
      until: run === null ? session.until : null,
      every: session.everyOf(entry, phase),
      run: run?.id ?? '',
    });
  }

  private shown(side: Side, frame: ViewFrame | null, empty: EmptyView | null): ShownSide {
    const isOwn = (query: ViewQuery): boolean => query.run === (side.run?.id ?? '');
    const mine = frame !== null && isOwn(frame.query) ? frame : null;
    const none = empty !== null && isOwn(empty.query) ? empty : null;
    const { run, query } = side;
    const kept = mine?.steps ?? none?.steps ?? [];
    const history =
      run === null ? this.session.history : { first: run.first_step, last: run.last_step };
    const track = trackOf(
      run === null || kept.includes(run.last_step) ? kept : [...kept, run.last_step],
      history,
      spacingOf(kept, query?.every ?? 1),
    );
    const wanted = query?.step ?? null;
    const far = mine !== null && wanted !== null && Math.abs(mine.step - wanted) >= track.spacing;
    const fetching = none?.reason === 'fetching' || (none === null && far);
    return { ...side, frame: mine, empty: none, track, fetching };
  }

  private compare(): Compared {
    const no = (reason: string): Compared => ({ pair: null, reason });
    if (this.session.point === null) return no('Nothing is traced: add a point to the trace plan.');
    for (const side of [this.a, this.b]) {
      const reason = this.obstacle(side);
      if (reason !== undefined) return no(reason);
    }
    const [a, b] = [this.a.frame, this.b.frame];
    if (a === null || b === null) return no('Waiting for both sides.');
    const differ = differenceOf(this.held(a), this.held(b));
    return differ === undefined ? compareFrames(a, b) : no(differ);
  }

  private held(frame: ViewFrame): Held {
    const { session } = this;
    const runId = frame.query.run === '' ? (session.run?.id ?? '') : frame.query.run;
    return { frame, of: compressorFor(session, frame), runId };
  }

  private obstacle(side: ShownSide): string | undefined {
    const { name, known, runId, run, entry, empty, frame } = side;
    const what = this.session.point?.name ?? '';
    if (!known) {
      return `The hub offers no run ${runId}: it is not in this run's folder. Start the hub with --compare FILE.`;
    }
    if (entry === null) return `${run?.name ?? name} (${name}) does not trace ${what}.`;
    if (frame !== null) return undefined;
    const step = side.query?.step;
    const at = typeof step === 'number' ? ` at step ${step}` : '';
    if (empty?.reason === 'fetching') return `Loading ${name}${at} from the hub's history.`;
    if (empty?.reason === 'gap') return `${name} has no kept data of ${what}${at}.`;
    if (empty?.reason === 'unreadable') return `The records of ${name} cannot be shown.`;
    return empty === null ? `Waiting for ${name}.` : `${name} has no data of ${what} yet.`;
  }
}

export const comparisonOf = stateOf((session) => new Comparison(session));
