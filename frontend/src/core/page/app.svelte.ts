import { untrack } from 'svelte';
import { rankCount } from '../../protocol/mesh';
import { type Disposable, Trash } from '../../base/disposable';
import { RafScheduler } from '../../base/raf_scheduler';
import {
  type Hello,
  type Notification,
  type OtherRunFacts,
  type Part,
  type Plan,
  type RunFacts,
  type RunState,
  type StepFacts,
  tokenizerOf,
} from '../../protocol/messages';
import { alarmsOf } from '../store/alarms';
import { SeriesStore } from '../store/series_store';
import { spacingOf } from '../store/spacing';
import type { StepRange } from '../worker/history_client';
import type { EmptyView, View, ViewFrame, ViewQuery } from '../store/frames';
import type { Connection, HubEvent, Slot, Traffic } from '../worker/link_messages';
import { WorkerLink } from '../worker/worker_link';
import { socketUrl } from '../session/auth';
import { type Chip, chipOf } from '../session/connection_chip';
import { Controller } from '../session/controller.svelte';
import { type Drops, kNoDrops, ofNewPlan, withDrops } from '../session/drops';
import { earlierOf, lagOf } from '../session/lag';
import { PlanBook } from '../session/plan_book.svelte';
import { preferredView, rememberView } from '../session/preferences';
import { queryOf } from '../session/queries';
import { replayOf } from '../session/replay';
import { RunEvents } from '../session/run_events.svelte';
import { RunLog } from '../session/run_log.svelte';
import { stepFrom, trackOf } from '../session/step_track';
import { SignIn } from '../session/sign_in.svelte';
import { ThemeSwitch } from '../session/theme_switch.svelte';
import { Toasts } from '../session/toasts.svelte';
import type { Follower } from '../registry/feature';
import { features, tabOf } from '../registry/registry';
import type { Session } from '../session/session';
import { closest, phaseOf, type WatchedEntry, watchedEntries } from '../session/watched';
import { parseViewState, type ViewState } from '../session/url_state';
import { Address } from './address';
import { SeriesClock } from './series_clock.svelte';

const kOtherNumbers = { layerLock: null, tileLock: null, mapRows: null, pin: null } as const;
const kStoreBytes = 128 * 2 ** 20;

/** The state of the page. Features read it as a `Session`; only events of the hub change it. */
export class App implements Disposable, Session {
  readonly link: WorkerLink;
  readonly scheduler = new RafScheduler();
  readonly series = new SeriesStore();
  readonly events = new RunEvents();
  readonly log = new RunLog();
  readonly plans = new PlanBook();
  readonly themes = new ThemeSwitch();
  readonly toasts = new Toasts();
  readonly signIn = new SignIn(() => this.link.start(socketUrl(document.baseURI), kStoreBytes));
  readonly control: Controller;

  connection = $state.raw<Connection>({ kind: 'connecting' });
  run = $state.raw<RunFacts | null>(null);
  runState = $state.raw<RunState | null>(null);
  /** The pipeline stages of a run that has several stages. */
  parts = $state.raw<readonly Part[]>([]);
  plan = $state.raw<Plan | null>(null);
  /** The step from which the plan is in force; null if no notification has told the page this step. */
  planSince = $state.raw<number | null>(null);
  otherRuns = $state.raw<readonly OtherRunFacts[]>([]);
  hubVersion = $state('');
  drops = $state.raw<Drops>(kNoDrops);
  /** The range of steps in the hub's history. */
  history = $state.raw<StepRange | null>(null);
  traffic = $state.raw<Traffic | null>(null);
  latest = $state.raw<StepFacts | null>(null);
  view = $state.raw<ViewState>(parseViewState(location.search, preferredView()));
  frame = $state.raw<ViewFrame | null>(null);
  empty = $state.raw<EmptyView | null>(null);
  /** The token column under the mouse, shared by all maps. */
  hoverColumn = $state<number | null>(null);
  now = $state(Date.now());

  private readonly tab = $derived(tabOf(this.view.tab));
  /** The entries of the plan that can be shown: those whose point has features. */
  readonly watched = $derived.by(() => watchedEntries(this.run, this.plan));
  /** The entries that the user can choose in the shown tab. */
  readonly points = $derived.by(() => this.tab?.pointsOf?.(this.watched) ?? this.watched);
  readonly point = $derived(
    this.points.find((each) => each.name === this.view.point) ??
      this.points.find(({ enabled }) => enabled) ??
      this.points[0] ??
      null,
  );
  readonly tokenizer = $derived(tokenizerOf(this.run));
  readonly layerChoices = $derived(this.point?.layers ?? []);
  /** The shown phase: the phase in the address, if the entry traces it. */
  readonly phase = $derived(phaseOf(this.point?.phases ?? [], this.view.phase));
  /** The shown layer: of the entry's layers, the one closest to the layer in the address. */
  readonly layer = $derived(closest(this.layerChoices, this.view.layer));
  /** Null while the run is live. */
  readonly replay = $derived(replayOf(this.runState));
  /** The last step that may be shown: the step of a replay, or of a held view; null for no limit. */
  readonly until = $derived(earlierOf(this.replay?.step ?? null, this.view.hold));
  /** The events up to the last step that may be shown, by step. */
  readonly happened = $derived.by(() => {
    const until = this.shownUntil() ?? Infinity;
    return [...this.events.all, ...alarmsOf(this.scalars())]
      .filter(({ step }) => step <= until)
      .sort((a, b) => a.step - b.step);
  });
  readonly theme = $derived(this.themes.shown);
  readonly paused = $derived(this.replay?.paused ?? this.runState?.phase === 'paused');
  private readonly evaluations = $derived.by(() => {
    const evaluated = this.allScalars().filter((facts) => typeof facts.valid_loss === 'number');
    return evaluated.map(({ step }) => step);
  });
  /** The interval of the shown entry in steps. */
  private readonly every = $derived(this.everyOf(this.point, this.phase));
  readonly track = $derived.by(() => {
    const kept = this.frame?.steps ?? this.empty?.steps ?? [];
    return trackOf(kept, this.history, spacingOf(kept, this.every));
  });
  private readonly waiting = $derived(this.connection.kind === 'reconnecting');
  /** The newest step, also while the view is held; in a replay, its current step. */
  readonly newestStep = $derived(
    this.replay?.step ?? Math.max(this.runState?.step ?? 0, this.latest?.step ?? 0),
  );
  /** The number of captured steps by which the frame is behind the run; 0 while the view is held. */
  readonly lag = $derived.by(() => {
    const { frame, point, phase, newestStep } = this;
    return this.view.hold === null ? lagOf(frame, point, phase, newestStep) : 0;
  });
  readonly chip: Chip = $derived(
    chipOf(this.connection, this.runState, this.lag, this.waiting ? this.now : 0),
  );

  /** The current warnings of the features. */
  readonly warnings = $derived.by(() => this.followers.flatMap(({ warning }) => warning ?? []));

  private readonly followers: readonly Follower[];
  private readonly trash = new Trash();
  private readonly listening = new AbortController();
  private readonly address = new Address(() => this.view);
  private readonly seriesClock = new SeriesClock(() => this.scheduler.settled());
  private sentQuery = '';

  constructor(worker: Worker) {
    this.link = new WorkerLink(worker);
    this.control = new Controller(this.link);
    this.followers = features().flatMap((feature) => feature.start?.(this) ?? []);
    this.trash.use(this.link.onConnection((connection) => this.onConnection(connection)));
    this.trash.use(this.link.onEvents((events) => this.onEvents(events)));
    this.trash.use(this.link.onView(({ slot, view }) => this.onView(slot, view)));
    this.trash.use(this.link.onTraffic((traffic) => (this.traffic = traffic)));
    this.trash.use(this.themes.start(() => this.scheduler.redraw()));
    const timer = setInterval(() => {
      if (this.waiting) this.now = Date.now();
    }, 100);
    this.trash.defer(() => clearInterval(timer));
    const { signal } = this.listening;
    addEventListener('hashchange', () => void this.signIn.begin(), { signal });
    addEventListener('unhandledrejection', ({ reason }) => this.log.fail(reason), { signal });
    this.trash.defer(() => this.listening.abort());
  }

  dispose(): void {
    this.trash.dispose();
  }

  /** Changes the view; the address and the worker follow. */
  show(change: Partial<ViewState>): void {
    this.view = { ...this.view, ...change };
    rememberView(change);
    this.address.changed();
    this.sendQuery();
  }

  /** The name of the point that a frame shows. The plan may have changed since then. */
  pointNameOf(frame: ViewFrame | null): string {
    const flag = frame?.query.point;
    return this.run?.points.find((point) => point.flag === flag)?.name ?? '';
  }

  /** The entry's interval in steps. */
  everyOf(entry: WatchedEntry | null, phase: 'train' | 'eval'): number {
    return phase === 'eval' ? spacingOf(this.evaluations, 1) : (entry?.every ?? 1);
  }

  moveLayer(by: number): void {
    const index = this.layerChoices.indexOf(this.layer);
    const next = this.layerChoices[index + by];
    if (next !== undefined) this.show({ layer: next });
  }

  movePoint(by: number): void {
    if (this.point === null || this.points.length === 0) return;
    const index = this.points.indexOf(this.point) + by + this.points.length;
    this.choosePoint(this.points[index % this.points.length].name);
  }

  /** Also unlocks the scales and clears the rows and the pin, which do not fit another point. */
  choosePoint(name: string): void {
    this.show({ point: name, ...kOtherNumbers });
  }

  /** Moves through the captured steps; after the last step, the view follows the newest step. */
  moveStep(by: 1 | -1): void {
    const current = this.view.step ?? this.frame?.step;
    const track = this.tab?.trackOf?.(this) ?? this.track;
    if (current !== undefined) this.show({ step: stepFrom(track, current, by) });
  }

  follow(): void {
    this.show({ step: null, hold: null });
  }

  /** Holds the view, while the run continues and records arrive; or follows the newest step again. */
  toggleHold(): void {
    if (this.view.hold !== null) this.follow();
    else this.show({ hold: this.newestStep, step: this.view.step ?? this.frame?.step ?? null });
  }

  /** The scalars that are shown. */
  scalars(): readonly StepFacts[] {
    const all = this.allScalars();
    const until = this.shownUntil();
    return until === null ? all : this.series.upTo(until);
  }

  /** As `until`, but the step of a replay changes when the clock of the scalars says so. */
  private shownUntil(): number | null {
    return earlierOf(untrack(() => this.replay)?.step ?? null, this.view.hold);
  }

  private newestScalars(): StepFacts | undefined {
    const { replay, series } = this;
    return replay === null ? series.last : series.upTo(replay.step).at(-1);
  }

  /** Reads the version, because the scalars are not reactive. */
  private allScalars(): readonly StepFacts[] {
    return this.seriesClock.version < 0 ? [] : this.series.all;
  }

  /** Resolves when all data that was sent before this call has arrived and is drawn. For tests. */
  async idle(): Promise<void> {
    this.address.flush();
    await this.link.sync();
    this.seriesClock.flush();
    await this.scheduler.settled();
    await this.scheduler.settled();
  }

  private onConnection(connection: Connection): void {
    this.connection = connection;
    this.now = Date.now();
    if (connection.kind === 'open') this.signIn.connected();
    else this.control.disconnected();
    if (connection.kind === 'refused' && connection.reason === 'token') void this.signIn.again();
  }

  private onEvents(events: readonly HubEvent[]): void {
    let scalars = false;
    for (const event of events) {
      if (event.kind === 'notification') {
        scalars = this.onNotification(event.notification) || scalars;
        continue;
      }
      if (event.kind === 'past') {
        this.series.merge(event.facts, event.stride, this.replay !== null);
        scalars = true;
        continue;
      }
      if (event.kind === 'trail') {
        this.events.merge(event.lines);
        this.plans.recall(event.lines, this.run?.id ?? '');
        for (const follower of this.followers) follower.onTrail?.(event.lines);
        continue;
      }
      if (event.kind === 'history') {
        this.history = event.range;
        continue;
      }
      if (event.kind === 'runs') {
        this.otherRuns = event.runs;
        this.sendQuery();
        continue;
      }
      this.onHello(event.hello);
    }
    if (this.replay !== null) this.sendQuery();
    if (!scalars && this.replay === null) return;
    this.latest = this.newestScalars() ?? null;
    this.seriesClock.changed();
  }

  private onHello(hello: Hello): void {
    this.hubVersion = hello.hub;
    this.runState = hello.state;
    this.parts = hello.parts ?? [];
    // A replay only moves through its steps and loses none, so no step is replaced.
    if (this.replay === null) this.series.restart();
    if (hello.run !== null) this.onRun(hello.run);
    this.events.greeted(hello);
    this.control.greeted(hello.session, hello.control, hello.may_control !== false);
  }

  private onNotification(notification: Notification): boolean {
    this.events.add(notification, this.newestStep);
    for (const follower of this.followers) follower.onNotification?.(notification);
    switch (notification.event) {
      case 'step':
        this.series.add(notification.params);
        return true;
      case 'run':
        if (this.replay === null) this.series.restart();
        this.onRun(notification.params);
        return true;
      case 'state':
        this.runState = notification.params;
        return false;
      case 'control':
        this.control.changed(notification.params);
        return false;
      case 'parts':
        this.parts = notification.params.parts;
        return false;
      case 'plan':
        this.onPlan(notification.params.plan, notification.params.step);
        return false;
      case 'prompts':
        if (this.run !== null) {
          this.run = { ...this.run, prompt_sets: notification.params.prompt_sets };
        }
        return false;
      case 'dropped':
        this.drops = withDrops(this.drops, notification.params);
        return false;
      case 'log':
        this.log.note(notification.params);
        return false;
      default:
        return false;
    }
  }

  private onRun(run: RunFacts): void {
    const isAnother = this.run !== null && this.run.id !== run.id;
    if (isAnother) {
      this.series.clear();
      this.events.clear();
      this.plans.clear();
      this.plan = null;
      this.frame = null;
      this.history = null;
      this.latest = null;
      this.seriesClock.changed();
      this.seriesClock.flush();
    }
    this.run = run;
    this.control.allRanks = rankCount(run.mesh);
    for (const follower of this.followers) follower.onRun?.(run, isAnother);
    if (run.plan !== undefined && run.plan !== null) this.onPlan(run.plan);
    this.sendQuery();
  }

  private onPlan(plan: Plan, since: number | null = null): void {
    if (this.plan?.number !== plan.number) {
      this.drops = ofNewPlan(this.drops);
      this.planSince = since;
    }
    this.plan = plan;
    this.plans.add(plan, since ?? 0);
    this.sendQuery();
  }

  private sendQuery(): void {
    for (const follower of this.followers) follower.sendQuery?.();
    if (this.point === null) return;
    const query = this.tab?.queryOf === undefined ? this.query(this.point) : this.tab.queryOf(this);
    if (query === null) return;
    const text = JSON.stringify(query);
    if (text === this.sentQuery) return;
    this.sentQuery = text;
    this.link.query('main', query);
  }

  private query(point: WatchedEntry): ViewQuery {
    const { view } = this;
    const shown = this.tab?.isOfOneLayer === true ? { ...view, layout: 'one' as const } : view;
    return queryOf(point, shown, {
      plan: this.plan?.number ?? 0,
      phase: this.phase,
      layer: this.layer,
      step: view.step,
      until: this.until,
      every: this.every,
      run: '',
    });
  }

  private onView(slot: Slot, view: View): void {
    if (slot === 'main') this.onMainView(view);
    else this.toFollowers(slot, view);
    void this.scheduler.settled().then(() => this.link.drawn(slot));
  }

  private toFollowers(slot: Slot, view: View): void {
    for (const follower of this.followers) follower.onView?.(slot, view);
  }

  private onMainView(view: View): void {
    this.frame = 'frame' in view ? view.frame : null;
    this.empty = 'frame' in view ? null : view.empty;
  }
}
