import { type Disposable, Trash } from '../../base/disposable';
import { RafScheduler } from '../../base/raf_scheduler';
import type {
  Hello,
  Notification,
  Plan,
  RunFacts,
  RunState,
  StepFacts,
} from '../../protocol/messages';
import { alarmsOf } from '../store/alarms';
import { SeriesStore } from '../store/series_store';
import { spacingOf } from '../store/spacing';
import type { StepRange } from '../worker/history_client';
import type { EmptyView, View, ViewFrame, ViewQuery } from '../store/frames';
import type { Connection, HubEvent, Slot, Traffic } from '../worker/link_messages';
import { WorkerLink } from '../worker/worker_link';
import { socketUrl } from './auth';
import { type Chip, chipOf } from './connection_chip';
import { KeptRuns } from './kept_runs.svelte';
import { Comparison } from '../../features/compare/comparison.svelte';
import { Controller } from './controller.svelte';
import { type Drops, kNoDrops, ofNewPlan, withDrops } from './drops';
import { Interventions } from '../../features/interventions/interventions.svelte';
import { earlierOf, lagOf } from './lag';
import { PlanBook } from './plan_book.svelte';
import { ProjectionAlarm } from '../../features/projections/projection_alarm.svelte';
import { preferredView, rememberView } from './preferences';
import { queryOf } from './queries';
import { replayOf } from './replay';
import { RunEvents } from './run_events.svelte';
import { RunLog } from './run_log.svelte';
import { stepFrom, trackOf } from './step_track';
import { SignIn } from './sign_in.svelte';
import { ThemeSwitch } from './theme.svelte';
import { closest, phaseOf, textEntries, type WatchedEntry, watchedEntries } from './watched';
import { formatViewState, parseViewState, type ViewState } from './url_state';

// Browsers refuse more than some 200 changes of the address in 30 s; a slider makes more.
const kAddressDelayMs = 150;
const kStoreBytes = 128 * 2 ** 20;

/** The page's state. Panels read it and call its methods; only events of the hub change it. */
export class App implements Disposable {
  readonly link = new WorkerLink();
  readonly scheduler = new RafScheduler();
  readonly series = new SeriesStore();
  readonly events = new RunEvents();
  readonly log = new RunLog();
  readonly plans = new PlanBook();
  readonly themes = new ThemeSwitch();
  readonly signIn = new SignIn(() => this.link.start(socketUrl(document.baseURI), kStoreBytes));
  readonly control: Controller;
  readonly interventions: Interventions;
  readonly comparison: Comparison;
  readonly keptRuns: KeptRuns;
  readonly alarm: ProjectionAlarm;

  connection = $state.raw<Connection>({ kind: 'connecting' });
  run = $state.raw<RunFacts | null>(null);
  runState = $state.raw<RunState | null>(null);
  plan = $state.raw<Plan | null>(null);
  /** The step from which the plan is in force, if this page has seen it come. */
  planSince = $state.raw<number | null>(null);
  hubVersion = $state('');
  drops = $state.raw<Drops>(kNoDrops);
  /** The steps that the hub's history tells of. */
  history = $state.raw<StepRange | null>(null);
  traffic = $state.raw<Traffic | null>(null);
  latest = $state.raw<StepFacts | null>(null);
  /** Rises whenever the scalars change; they themselves are not reactive. */
  seriesVersion = $state(0);
  view = $state.raw<ViewState>(parseViewState(location.search, preferredView()));
  frame = $state.raw<ViewFrame | null>(null);
  empty = $state.raw<EmptyView | null>(null);
  /** Token column under the mouse, shared by both maps. */
  hoverColumn = $state<number | null>(null);
  now = $state(Date.now());

  /** What can be shown: the entries of the plan that have features. */
  readonly watched = $derived.by(() => watchedEntries(this.run, this.plan));
  /** Those that the shown tab can choose from: with the text its predictions, if there are any. */
  readonly points = $derived(this.view.tab === 'text' ? textEntries(this.watched) : this.watched);
  readonly point = $derived(
    this.points.find((each) => each.name === this.view.point) ??
      this.points.find(({ enabled }) => enabled) ??
      this.points[0] ??
      null,
  );
  readonly tokenizer = $derived(this.run?.tokenizer?.kind ?? 'byte');
  readonly layerChoices = $derived(this.point?.layers ?? []);
  /** The phase that is shown: the one asked for, if the plan watches it. */
  readonly phase = $derived(phaseOf(this.point?.phases ?? [], this.view.phase));
  /** The layer that is shown: the one asked for, held inside what the plan watches. */
  readonly layer = $derived(closest(this.layerChoices, this.view.layer));
  /** Null while the run is live. */
  readonly replay = $derived(replayOf(this.runState));
  /** Nothing later is shown: a replay has not come to it, or the view is held. */
  readonly until = $derived(earlierOf(this.replay?.step ?? null, this.view.hold));
  /** What happened up to what is shown, by step. */
  readonly happened = $derived.by(() => {
    const until = this.until ?? Infinity;
    const { event } = this.alarm;
    return [...this.events.all, ...alarmsOf(this.scalars()), ...(event === null ? [] : [event])]
      .filter(({ step }) => step <= until)
      .sort((a, b) => a.step - b.step);
  });
  readonly theme = $derived(this.themes.shown);
  readonly paused = $derived(this.replay?.paused ?? this.runState?.phase === 'paused');
  private readonly evaluations = $derived.by(() => {
    const evaluated = this.allScalars().filter((facts) => typeof facts.valid_loss === 'number');
    return evaluated.map(({ step }) => step);
  });
  /** The shown entry takes every so many steps. */
  private readonly every = $derived(this.everyOf(this.point, this.phase));
  readonly track = $derived.by(() => {
    const kept = this.frame?.steps ?? this.empty?.steps ?? [];
    return trackOf(kept, this.history, spacingOf(kept, this.every));
  });
  private readonly waiting = $derived(this.connection.kind === 'reconnecting');
  /** The newest step, also while the view is held; of a replay the one that it is at. */
  readonly newestStep = $derived(
    this.replay?.step ?? Math.max(this.runState?.step ?? 0, this.latest?.step ?? 0),
  );
  /** Steps that the picture is behind; a held view is behind on purpose. */
  readonly lag = $derived.by(() => {
    const { frame, point, phase, newestStep } = this;
    return this.view.hold === null ? lagOf(frame, point, phase, newestStep) : 0;
  });
  readonly chip: Chip = $derived(
    chipOf(this.connection, this.runState, this.lag, this.waiting ? this.now : 0),
  );

  private readonly trash = new Trash();
  private readonly listening = new AbortController();
  private sentQuery = '';
  private addressTimer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.control = new Controller(this.link);
    this.interventions = new Interventions(this.control);
    this.comparison = new Comparison(this);
    this.keptRuns = new KeptRuns(this);
    this.alarm = new ProjectionAlarm(this);
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
    clearTimeout(this.addressTimer);
    this.addressTimer = setTimeout(() => this.writeAddress(), kAddressDelayMs);
    this.sendQuery();
    this.alarm.aim();
  }

  private writeAddress(): void {
    clearTimeout(this.addressTimer);
    this.addressTimer = undefined;
    const address = location.pathname + formatViewState(this.view, preferredView()) + location.hash;
    history.replaceState(null, '', address);
  }

  /** The name of the point that a frame shows: the plan may have gone on. */
  pointNameOf(frame: ViewFrame | null): string {
    const flag = frame?.query.point;
    return this.run?.points.find((point) => point.flag === flag)?.name ?? '';
  }

  /** How many steps lie between two that an entry takes. */
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

  /** Another point has other numbers: a locked scale would not fit it. */
  choosePoint(name: string): void {
    this.show({ point: name, layerLock: null, tileLock: null });
  }

  /** Moves through the captured steps; beyond the last one the view follows again. */
  moveStep(by: 1 | -1): void {
    const current = this.view.step ?? this.frame?.step;
    const track = this.comparison.active ? this.comparison.a.track : this.track;
    if (current !== undefined) this.show({ step: stepFrom(track, current, by) });
  }

  follow(): void {
    this.show({ step: null, hold: null });
  }

  /** Holds the view as it stands, while the run and the intake go on; or follows again. */
  toggleHold(): void {
    if (this.view.hold !== null) this.follow();
    else this.show({ hold: this.newestStep, step: this.view.step ?? this.frame?.step ?? null });
  }

  /** The scalars that are shown. */
  scalars(): readonly StepFacts[] {
    const all = this.allScalars();
    return this.until === null ? all : this.series.upTo(this.until);
  }

  private newestScalars(): StepFacts | undefined {
    const { replay, series } = this;
    return replay === null ? series.last : series.upTo(replay.step).at(-1);
  }

  /** Read together with their version, so that what is derived from them follows. */
  private allScalars(): readonly StepFacts[] {
    return this.seriesVersion < 0 ? [] : this.series.all;
  }

  /** Resolves when everything sent so far has arrived and is drawn. For tests. */
  async idle(): Promise<void> {
    if (this.addressTimer !== undefined) this.writeAddress();
    await this.link.sync();
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
      this.keptRuns.take(event);
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
        continue;
      }
      if (event.kind === 'history') {
        this.history = event.range;
        continue;
      }
      if (event.kind === 'runs') {
        this.comparison.runs = event.runs;
        this.sendQuery();
        continue;
      }
      if (event.kind === 'hello') this.onHello(event.hello);
    }
    if (this.replay !== null) this.sendQuery();
    if (!scalars && this.replay === null) return;
    this.latest = this.newestScalars() ?? null;
    if (scalars) this.seriesVersion += 1;
  }

  private onHello(hello: Hello): void {
    this.hubVersion = hello.hub;
    this.runState = hello.state;
    // A replay loses nothing: it only moves.
    if (this.replay === null) this.series.restart();
    if (hello.run !== null) this.onRun(hello.run);
    this.events.greeted(hello);
    this.control.greeted(hello.session, hello.control, hello.may_control !== false);
  }

  private onNotification(notification: Notification): boolean {
    this.events.add(notification, this.newestStep);
    this.interventions.take(notification);
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
      case 'plan':
        this.onPlan(notification.params.plan, notification.params.step);
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
    if (this.run !== null && this.run.id !== run.id) {
      this.series.clear();
      this.events.clear();
      this.interventions.clear();
      this.plans.clear();
      this.plan = null;
      this.frame = null;
      this.history = null;
      this.latest = null;
      this.seriesVersion += 1;
    }
    this.run = run;
    this.control.allRanks = run.mesh.tensor * run.mesh.pipeline * run.mesh.data;
    this.interventions.inForce(run.interventions ?? []);
    if (run.plan !== undefined && run.plan !== null) this.onPlan(run.plan);
    this.sendQuery();
  }

  private onPlan(plan: Plan, since: number | null = null): void {
    if (this.plan?.number !== plan.number) {
      this.drops = ofNewPlan(this.drops);
      this.planSince = since;
    }
    this.plan = plan;
    this.plans.add(plan);
    this.sendQuery();
  }

  private sendQuery(): void {
    this.comparison.sendQuery();
    this.alarm.sendQuery();
    if (this.point === null) return;
    const query = this.comparison.active ? this.comparison.sideA.query : this.query(this.point);
    if (query === null) return;
    const text = JSON.stringify(query);
    if (text === this.sentQuery) return;
    this.sentQuery = text;
    this.link.query('main', query);
  }

  private query(point: WatchedEntry): ViewQuery {
    const { view } = this;
    // A summary over the steps has no text.
    const shown = view.tab === 'text' ? { ...view, layout: 'one' as const } : view;
    return queryOf(point, shown, {
      plan: this.plan?.number ?? 0,
      tokenizer: this.tokenizer,
      phase: this.phase,
      layer: this.layer,
      step: view.step,
      until: this.until,
      every: this.every,
      run: '',
    });
  }

  private onView(slot: Slot, view: View): void {
    if (slot === 'alarm') {
      this.alarm.onView(view);
      // A hidden page draws nothing, and its alarm must come all the same.
      this.link.drawn(slot);
      return;
    }
    if (slot === 'main') this.onMainView(view);
    else this.comparison.onView(view);
    void this.scheduler.settled().then(() => this.link.drawn(slot));
  }

  private onMainView(view: View): void {
    if ('frame' in view) {
      this.frame = view.frame;
      this.empty = null;
      this.alarm.aim();
    } else {
      this.frame = null;
      this.empty = view.empty;
    }
  }
}
