import { kNotConnected } from '../../protocol/hub_client';
import type { AuditLine, Notification, Plan, StepFacts } from '../../protocol/messages';
import { webSocketPipe } from '../../protocol/pipe';
import type { TensorRecord } from '../../protocol/record';
import { decodeRecords } from '../../protocol/record_reader';
import { lossesOf, type StepLoss } from '../store/losses';
import { PlanHistory } from '../store/plan_history';
import { RingStore } from '../store/ring_store';
import type { View, ViewQuery } from '../store/frames';
import { buffersOf, buildersLoaded, buildView, loadBuilders } from '../store/view';
import { HistoryClient, hubFetcher } from './history_client';
import { HubSession } from './hub_session';
import {
  type FromWorker,
  type HubEvent,
  kSlots,
  type Slot,
  type Traffic,
  type ToWorker,
} from './link_messages';
import { AuditTrail } from './audit_trail';
import { CurvePast } from './curve_past';
import { Leaders } from './leaders';
import { OtherRuns } from './other_runs';
import { readPastSteps } from './past_steps';
import { Scrubber } from './scrubber';
import { ViewSender } from './view_sender';
import { Watching } from './watching';

interface WorkerScope {
  postMessage(message: FromWorker, transfer?: Transferable[]): void;
  addEventListener(type: 'message', listener: (event: MessageEvent<ToWorker>) => void): void;
}

const kScope = self as unknown as WorkerScope;
const kEventsDelayMs = 16;

/** Owns the socket and the store, and builds the views. */
class HubWorker {
  private store = new RingStore(0);
  /** The records of answers, by the prompt-set number in the queries. */
  private readonly answered = new Map<number, RingStore>();
  private readonly plans = new PlanHistory();
  private session: HubSession | undefined;
  private history: HistoryClient | undefined;
  private scrubber: Scrubber | undefined;
  private curvePast: CurvePast | undefined;
  private trail: AuditTrail | undefined;
  private others: OtherRuns | undefined;
  private readonly leaders = new Leaders();
  private readonly watching = new Watching(() => void this.session?.request('subscribe', {}));
  private historyAsked = 0;
  private readonly views = new Map(kSlots.map((slot) => [slot, this.makeSender(slot)]));
  private run = '';
  private events: HubEvent[] = [];
  private eventsTimer: ReturnType<typeof setTimeout> | undefined;
  private bytes = 0;
  private records = 0;
  private problems = 0;
  private lastProblem = '';

  onMessage(message: ToWorker): void {
    switch (message.kind) {
      case 'start':
        this.start(message.socketUrl, message.capacity);
        break;
      case 'request':
        void this.request(message.token, message.method, message.params);
        break;
      case 'query':
        this.views.get(message.slot)?.ask(message.query);
        break;
      case 'whole':
        void this.whole(message.token, message.query);
        break;
      case 'losses':
        void this.sendLosses(message.token, message.run);
        break;
      case 'runs':
        void this.askRuns();
        break;
      case 'keep':
        this.keep(message.records, message.promptSet);
        break;
      case 'drawn':
        this.views.get(message.slot)?.drawn();
        break;
      case 'sync':
        void this.sync(message.token);
        break;
    }
  }

  private keep(records: ArrayBuffer, promptSet: number): void {
    const store = new RingStore(Infinity);
    this.answered.set(promptSet, store);
    try {
      for (const { header, ...rest } of decodeRecords(records)) {
        store.insert({ ...rest, header: { ...header, promptSet } });
      }
    } catch (error) {
      this.problem(error instanceof Error ? error.message : String(error));
    }
  }

  postTraffic(): void {
    const traffic: Traffic = {
      bytesPerSecond: this.bytes,
      recordsPerSecond: this.records,
      storedBytes: this.store.bytes,
      capacity: this.store.capacity,
      problems: this.problems,
      lastProblem: this.lastProblem,
      leaders: this.leaders.all,
    };
    this.bytes = 0;
    this.records = 0;
    this.post({ kind: 'traffic', traffic });
  }

  private async sync(token: number): Promise<void> {
    await this.trail?.settled();
    for (const view of this.views.values()) view.flush();
    await this.curvePast?.settled();
    await this.others?.settled();
    await buildersLoaded();
    this.flushEvents();
    for (const view of this.views.values()) view.flush();
    this.post({ kind: 'synced', token });
  }

  private async whole(token: number, query: ViewQuery): Promise<void> {
    const store = this.answered.get(query.promptSet) ?? this.store;
    const build = (): View => buildView(store, query, 'here', 'whole');
    if (isLoading(build())) await buildersLoaded();
    this.postView({ kind: 'whole', token, view: build() });
  }

  private start(socketUrl: string, capacity: number): void {
    if (this.session === undefined) {
      this.store = new RingStore(capacity);
      this.session = this.makeSession(socketUrl);
      this.history = new HistoryClient(hubFetcher(socketUrl));
      this.scrubber = this.makeScrubber(this.history);
      this.curvePast = this.makeCurvePast(this.history);
      this.trail = this.makeTrail(this.history);
      this.others = this.makeOthers(this.history);
    }
    this.session.start();
  }

  private makeScrubber(history: HistoryClient): Scrubber {
    const listener = {
      onFetched: (records: readonly TensorRecord[], bytes: number): void =>
        this.take(records, bytes, true),
      onSettled: (): void => this.viewChanged(),
      onProblem: (problem: string): void => this.problem(problem),
    };
    return new Scrubber(history, this.store, listener, () => Date.now());
  }

  private makeCurvePast(history: HistoryClient): CurvePast {
    return new CurvePast(history, this.store, this.plans, {
      onFetched: (records, bytes) => this.take(records, bytes, true),
      onProblem: (problem) => this.problem(problem),
    });
  }

  private makeTrail(history: HistoryClient): AuditTrail {
    return new AuditTrail(history, {
      onLines: (lines) => {
        this.event({ kind: 'trail', lines });
        this.recall(lines);
      },
      onRead: () => {
        this.curvePast?.plansKnown();
        this.viewChanged();
      },
      onProblem: (problem) => this.problem(problem),
      after: (seconds, action) => void setTimeout(action, seconds * 1000),
    });
  }

  private makeOthers(history: HistoryClient): OtherRuns {
    const listener = {
      onFetched: (records: number, bytes: number): void => {
        this.bytes += bytes;
        this.records += records;
        this.viewChanged();
      },
      onChanged: (): void => this.viewChanged(),
      onProblem: (problem: string): void => this.problem(problem),
    };
    return new OtherRuns(history, listener, () => Date.now());
  }

  private makeSession(socketUrl: string): HubSession {
    return new HubSession(
      {
        connect: webSocketPipe(socketUrl),
        probe: () => probe(socketUrl),
        after: (seconds, action) => void setTimeout(action, seconds * 1000),
        now: () => Date.now(),
        random: Math.random,
      },
      {
        onConnection: (connection) => {
          this.flushEvents();
          this.post({ kind: 'connection', connection });
        },
        onHello: (hello) => {
          if (hello.run !== null) this.ofRun(hello.run.id, hello.run.plan);
          this.leaders.begin(hello.state.step);
          this.event({ kind: 'hello', hello });
          this.watching.begin(hello.run, hello.state);
          this.trail?.begin();
          this.curvePast?.begin();
          if (hello.run !== null) void this.askHistory(hello.run.id);
          void this.askRuns();
        },
        onNotification: (notification) => {
          const { event, params } = notification;
          this.watching.note(notification);
          if (event === 'run') this.ofRun(params.id, params.plan);
          if (event === 'plan') this.learn(params.plan, params.step);
          this.event({ kind: 'notification', notification });
          if (event === 'run') void this.askHistory(params.id);
          if (event === 'run') this.trail?.begin();
          else if (isEvent(notification)) this.trail?.grew();
        },
        onRecords: (records, bytes) => this.take(records, bytes, false),
        onProblem: (problem) => this.problem(problem),
      },
    );
  }

  private take(records: readonly TensorRecord[], bytes: number, fetched: boolean): void {
    for (const record of records) {
      this.store.insert(record, fetched);
      if (!fetched) this.leaders.take(record.header, Date.now());
    }
    this.bytes += bytes;
    this.records += records.length;
    this.viewChanged();
  }

  private problem(message: string): void {
    this.problems += 1;
    this.lastProblem = message;
  }

  /** Reads the history of the run: the range of its steps, then their scalars. */
  private async askHistory(run: string): Promise<void> {
    if (this.history === undefined) return;
    const asked = ++this.historyAsked;
    const current = (): boolean => asked === this.historyAsked;
    try {
      const range = await this.history.range(run);
      if (!current()) return;
      this.event({ kind: 'history', range });
      if (range === null) return;
      await readPastSteps(
        this.history,
        run,
        (facts, stride) => this.event({ kind: 'past', facts, stride }),
        current,
      );
    } catch (error) {
      this.problem(`history: ${String(error)}`);
    }
  }

  private async askRuns(): Promise<void> {
    try {
      this.event({ kind: 'runs', runs: (await this.history?.runs()) ?? [] });
    } catch (error) {
      this.problem(`history/runs: ${String(error)}`);
    }
  }

  private async sendLosses(token: number, run: string): Promise<void> {
    let losses: readonly StepLoss[] = [];
    const take = (facts: readonly StepFacts[]): void => {
      losses = [...lossesOf(facts), ...losses];
    };
    try {
      if (this.history !== undefined) await readPastSteps(this.history, run, take, () => true);
    } catch (error) {
      this.problem(`history: ${String(error)}`);
    }
    this.post({ kind: 'losses', token, losses });
  }

  private ofRun(id: string, plan: Plan | null | undefined): void {
    if (this.run !== '' && this.run !== id) {
      this.store.clear();
      this.answered.clear();
      this.plans.clear();
      this.leaders.clear();
    }
    if (this.run !== id) {
      this.scrubber?.ofRun(id);
      this.curvePast?.ofRun(id);
    }
    this.run = id;
    if (plan !== null && plan !== undefined) this.learn(plan, 0);
    this.viewChanged();
  }

  private learn(plan: Plan, since: number): void {
    this.plans.add(plan, since);
    this.store.learn(plan);
  }

  private recall(lines: readonly AuditLine[]): void {
    this.plans.recall(lines, this.run);
    for (const { plan } of this.plans.all) this.store.learn(plan);
  }

  private async request(token: number, method: string, params: unknown): Promise<void> {
    const answer = (await this.session?.request(method, params)) ?? kNotConnected;
    this.flushEvents();
    this.post({ kind: 'answer', token, answer });
  }

  private makeSender(slot: Slot): ViewSender {
    return new ViewSender(
      (query) => {
        const view = this.build(query);
        if (!isLoading(view)) return view;
        void buildersLoaded().then(() => this.viewChanged());
        return undefined;
      },
      (view) => this.postView({ kind: 'view', slot, view }),
    );
  }

  private build(query: ViewQuery): View {
    if (query.run !== '' && this.others !== undefined) return this.others.build(query);
    this.curvePast?.look(query);
    const holding = this.scrubber?.look(query);
    return buildView(this.store, query, holding, 'shown');
  }

  private viewChanged(): void {
    for (const view of this.views.values()) view.changed();
  }

  private event(event: HubEvent): void {
    this.events.push(event);
    this.eventsTimer ??= setTimeout(() => this.flushEvents(), kEventsDelayMs);
  }

  private flushEvents(): void {
    clearTimeout(this.eventsTimer);
    this.eventsTimer = undefined;
    if (this.events.length === 0) return;
    this.post({ kind: 'events', events: this.events });
    this.events = [];
  }

  private postView(message: Extract<FromWorker, { readonly view: View }>): void {
    // The first view has priority. After it, the code of all other views is loaded, while the hub runs.
    void loadBuilders();
    kScope.postMessage(message, buffersOf(message.view));
  }

  private post(message: FromWorker): void {
    kScope.postMessage(message);
  }
}

function isLoading(view: View): boolean {
  return 'empty' in view && view.empty.reason === 'loading';
}

/** Whether the hub's audit trail may have a line about it; the trail has no moves of a replay. */
function isEvent({ event, params }: Notification): boolean {
  if (event === 'state') return params.phase !== 'replay';
  return !['step', 'applied', 'saved', 'response', 'projections', 'recording'].includes(event);
}

/** A plain HTTP request to the socket's address: the browser hides the status of a failed upgrade. */
async function probe(socketUrl: string): Promise<number> {
  try {
    const url = socketUrl.replace(/^ws/, 'http');
    const response = await fetch(url, { cache: 'no-store', signal: AbortSignal.timeout(3000) });
    return response.status;
  } catch {
    return 0;
  }
}

/** Starts the worker: it answers the messages of the page. */
export function startHubWorker(): void {
  const worker = new HubWorker();
  kScope.addEventListener('message', (event) => worker.onMessage(event.data));
  setInterval(() => worker.postTraffic(), 1000);
}
