import { type Disposable, Trash } from '../base/disposable';
import { RafScheduler } from '../base/raf_scheduler';
import type { Theme } from '../draw/lut';
import { parseLayers } from '../protocol/layers';
import type {
  Notification,
  Plan,
  PointFacts,
  RunFacts,
  RunState,
  StepFacts,
} from '../protocol/messages';
import { SeriesStore } from '../store/series_store';
import type { EmptyView, View, ViewFrame, ViewQuery } from '../store/view';
import type { Connection, HubEvent, Traffic } from '../worker/link_messages';
import { WorkerLink } from '../worker/worker_link';
import { exchangeToken, socketUrl, tokenOf } from './auth';
import { type Chip, chipOf } from './connection_chip';
import { Controller } from './controller.svelte';
import { formatViewState, parseViewState, type ViewState } from './url_state';

// Browsers refuse more than some 200 changes of the address in 30 s; a slider makes more.
const kAddressDelayMs = 150;
const kStoreBytes = 128 * 2 ** 20;

export interface LogLine {
  readonly level: string;
  readonly message: string;
}

/** The page's state. Panels read it and call its methods; only events of the hub change it. */
export class App implements Disposable {
  readonly link = new WorkerLink();
  readonly scheduler = new RafScheduler();
  readonly series = new SeriesStore();
  readonly control: Controller;

  connection = $state.raw<Connection>({ kind: 'connecting' });
  needsToken = $state<'none' | 'missing' | 'refused'>('none');
  run = $state.raw<RunFacts | null>(null);
  runState = $state.raw<RunState | null>(null);
  plan = $state.raw<Plan | null>(null);
  hubVersion = $state('');
  drops = $state.raw({ viewer: 0, trainer: 0 });
  log = $state.raw<readonly LogLine[]>([]);
  traffic = $state.raw<Traffic | null>(null);
  latest = $state.raw<StepFacts | null>(null);
  /** Rises whenever the scalars change; they themselves are not reactive. */
  seriesVersion = $state(0);
  view = $state.raw<ViewState>(parseViewState(location.search));
  frame = $state.raw<ViewFrame | null>(null);
  empty = $state.raw<EmptyView | null>(null);
  /** Token column under the mouse, shared by both maps. */
  hoverColumn = $state<number | null>(null);
  theme = $state<Theme>('light');
  now = $state(Date.now());

  /** What can be shown: the entries of the plan that have features, one per name. */
  readonly points = $derived.by(() => watchedPoints(this.run, this.plan));
  readonly point = $derived(
    this.points.find((each) => each.facts.name === this.view.point) ?? this.points[0] ?? null,
  );
  readonly layerChoices = $derived(layersOf(this.point));
  /** The layer that is shown: the one asked for, held inside what the plan watches. */
  readonly layer = $derived(closest(this.layerChoices, this.view.layer));
  private readonly waiting = $derived(this.connection.kind === 'reconnecting');
  readonly lag = $derived.by(() => this.computeLag());
  readonly chip: Chip = $derived(
    chipOf(this.connection, this.runState, this.lag, this.waiting ? this.now : 0),
  );

  private readonly trash = new Trash();
  private token: string | undefined;
  private tokenTried = false;
  private sentQuery = '';
  private addressTimer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.control = new Controller(this.link);
    this.trash.use(this.link.onConnection((connection) => this.onConnection(connection)));
    this.trash.use(this.link.onEvents((events) => this.onEvents(events)));
    this.trash.use(this.link.onView((view) => this.onView(view)));
    this.trash.use(this.link.onTraffic((traffic) => (this.traffic = traffic)));
    this.followTheme();
    const timer = setInterval(() => {
      if (this.waiting) this.now = Date.now();
    }, 100);
    this.trash.defer(() => clearInterval(timer));
    const onFailure = (event: PromiseRejectionEvent): void => {
      this.note({ level: 'error', message: `the page failed: ${String(event.reason)}` });
    };
    addEventListener('unhandledrejection', onFailure);
    this.trash.defer(() => removeEventListener('unhandledrejection', onFailure));
    const onHash = (): void => void this.signIn();
    addEventListener('hashchange', onHash);
    this.trash.defer(() => removeEventListener('hashchange', onHash));
  }

  dispose(): void {
    this.trash.dispose();
  }

  /** Exchanges the token of the address, if there is one, and connects. */
  async signIn(): Promise<void> {
    const token = tokenOf(location.hash);
    if (token !== undefined) {
      this.token = token;
      history.replaceState(null, '', location.pathname + location.search);
    }
    if (this.token !== undefined) {
      const outcome = await exchangeToken(this.token);
      if (outcome === 'refused') {
        this.token = undefined;
        this.needsToken = 'refused';
        return;
      }
    }
    this.needsToken = 'none';
    this.link.start(socketUrl(document.baseURI), kStoreBytes);
  }

  /** Changes the view; the address and the worker follow. */
  show(change: Partial<ViewState>): void {
    this.view = { ...this.view, ...change };
    clearTimeout(this.addressTimer);
    this.addressTimer = setTimeout(() => this.writeAddress(), kAddressDelayMs);
    this.sendQuery();
  }

  private writeAddress(): void {
    this.addressTimer = undefined;
    const address = location.pathname + formatViewState(this.view) + location.hash;
    history.replaceState(null, '', address);
  }

  moveLayer(by: number): void {
    const index = this.layerChoices.indexOf(this.layer);
    const next = this.layerChoices[index + by];
    if (next !== undefined) this.show({ layer: next });
  }

  movePoint(by: number): void {
    if (this.point === null || this.points.length === 0) return;
    const index = this.points.indexOf(this.point) + by + this.points.length;
    this.choosePoint(this.points[index % this.points.length].facts.name);
  }

  /** Another point has other numbers: a locked scale would not fit it. */
  choosePoint(name: string): void {
    this.show({ point: name, layerLock: null, tileLock: null });
  }

  /** Moves through the steps that are kept; beyond the last one the view follows again. */
  moveStep(by: number): void {
    if (this.frame === null) return;
    const { steps, step } = this.frame;
    const next = steps.indexOf(step) + by;
    if (next >= steps.length) this.show({ step: null });
    else if (next >= 0) this.show({ step: steps[next] });
  }

  /** Resolves when everything sent so far has arrived and is drawn. For tests. */
  async idle(): Promise<void> {
    if (this.addressTimer !== undefined) {
      clearTimeout(this.addressTimer);
      this.writeAddress();
    }
    await this.link.sync();
    await this.scheduler.settled();
    await this.scheduler.settled();
  }

  private onConnection(connection: Connection): void {
    this.connection = connection;
    this.now = Date.now();
    if (connection.kind === 'open') this.tokenTried = false;
    else this.control.disconnected();
    if (connection.kind === 'refused' && connection.reason === 'token') void this.signInAgain();
  }

  /** The cookie is gone or of another hub: the token of this page may still be good. */
  private async signInAgain(): Promise<void> {
    if (this.token === undefined || this.tokenTried) {
      this.needsToken = 'missing';
      return;
    }
    this.tokenTried = true;
    await this.signIn();
  }

  private onEvents(events: readonly HubEvent[]): void {
    let scalars = false;
    for (const event of events) {
      if (event.kind === 'notification') {
        scalars = this.onNotification(event.notification) || scalars;
        continue;
      }
      const { hello } = event;
      this.hubVersion = hello.hub;
      this.series.restart();
      if (hello.run !== null) this.onRun(hello.run);
      this.runState = hello.state;
      this.control.greeted(hello.session, hello.control);
    }
    if (!scalars) return;
    this.latest = this.series.last ?? null;
    this.seriesVersion += 1;
  }

  private onNotification(notification: Notification): boolean {
    switch (notification.event) {
      case 'step':
        this.series.add(notification.params);
        return true;
      case 'run':
        this.series.restart();
        this.onRun(notification.params);
        return true;
      case 'state':
        this.runState = notification.params;
        return false;
      case 'control':
        this.control.changed(notification.params);
        return false;
      case 'plan':
        this.onPlan(notification.params.plan);
        return false;
      case 'dropped': {
        const { where, records } = notification.params;
        const key = where === 'trainer' ? 'trainer' : 'viewer';
        this.drops = { ...this.drops, [key]: this.drops[key] + records };
        return false;
      }
      case 'log':
        this.note(notification.params);
        return false;
    }
  }

  private note(line: LogLine): void {
    this.log = [...this.log.slice(-99), line];
  }

  private onRun(run: RunFacts): void {
    if (this.run !== null && this.run.id !== run.id) {
      this.series.clear();
      this.frame = null;
      this.latest = null;
      this.seriesVersion += 1;
    }
    this.run = run;
    document.title = `${run.name} – Tensor Tracer`;
    if (run.plan !== undefined && run.plan !== null) this.onPlan(run.plan);
    this.sendQuery();
  }

  private onPlan(plan: Plan): void {
    this.plan = plan;
    this.sendQuery();
  }

  private sendQuery(): void {
    if (this.point === null) return;
    const query: ViewQuery = {
      point: this.point.facts.flag,
      entry: this.point.entry,
      phase: this.view.phase === 'eval' ? 1 : 0,
      layer: this.layer,
      row: this.view.row,
      aggregate: this.view.aggregate,
      step: this.view.step,
    };
    const text = JSON.stringify(query);
    if (text === this.sentQuery) return;
    this.sentQuery = text;
    this.link.query(query);
  }

  private onView(view: View): void {
    if ('frame' in view) {
      this.frame = view.frame;
      this.empty = null;
    } else {
      this.frame = null;
      this.empty = view.empty;
    }
    void this.scheduler.settled().then(() => this.link.drawn());
  }

  /** Captured steps between the newest picture and the run, while following. */
  private computeLag(): number {
    if (this.frame === null || this.runState === null || this.point === null) return 0;
    if (this.view.phase === 'eval') return 0;
    const newest = this.frame.steps[this.frame.steps.length - 1] ?? 0;
    const behind = Math.max(this.runState.step, this.latest?.step ?? 0) - newest;
    return Math.max(0, Math.floor(behind / this.point.every));
  }

  private followTheme(): void {
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const apply = (): void => {
      this.theme = dark.matches ? 'dark' : 'light';
      this.scheduler.redraw();
    };
    dark.addEventListener('change', apply);
    this.trash.defer(() => dark.removeEventListener('change', apply));
    apply();
  }
}

/** A point of the plan that can be shown as a heat map. */
export interface WatchedPoint {
  readonly facts: PointFacts;
  readonly entry: number;
  readonly every: number;
  readonly layers: string | undefined;
  readonly phases: readonly string[];
}

function watchedPoints(run: RunFacts | null, plan: Plan | null): readonly WatchedPoint[] {
  const watched: WatchedPoint[] = [];
  plan?.entries.forEach((entry, index) => {
    const facts = run?.points.find((point) => point.name === entry.point);
    if (facts === undefined || facts.features === 0) return;
    if (watched.some((each) => each.facts.name === entry.point)) return;
    watched.push({
      facts,
      entry: index,
      every: Math.max(1, entry.every ?? 1),
      layers: entry.layers,
      phases: entry.phases ?? ['train'],
    });
  });
  return watched;
}

function layersOf(point: WatchedPoint | null): readonly number[] {
  if (point === null) return [];
  const { first_layer: first, last_layer: last } = point.facts;
  const all = Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
  if (point.layers === undefined) return all;
  const chosen = parseLayers(point.layers);
  return chosen === undefined ? all : chosen.filter((layer) => all.includes(layer));
}

function closest(choices: readonly number[], wanted: number): number {
  let best = choices[0] ?? wanted;
  for (const each of choices) if (Math.abs(each - wanted) < Math.abs(best - wanted)) best = each;
  return best;
}
