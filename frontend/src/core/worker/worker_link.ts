import { type Disposable } from '../../base/disposable';
import { Emitter } from '../../base/emitter';
import type { Answer } from '../../protocol/messages';
import type { View, ViewQuery } from '../store/frames';
import type { StepLoss } from '../store/losses';
import type { Connection, FromWorker, HubEvent, Slot, ToWorker, Traffic } from './link_messages';

export interface SlotView {
  readonly slot: Slot;
  readonly view: View;
}

/** The worker as the page sees it, with typed calls and typed events. */
export class WorkerLink {
  private readonly worker: Worker;
  private readonly connections = new Emitter<Connection>();
  private readonly hubEvents = new Emitter<readonly HubEvent[]>();
  private readonly views = new Emitter<SlotView>();
  private readonly traffics = new Emitter<Traffic>();
  private readonly answers = new Map<number, (answer: Answer) => void>();
  private readonly wholes = new Map<number, (view: View) => void>();
  private readonly losses = new Map<number, (losses: readonly StepLoss[]) => void>();
  private readonly syncs = new Map<number, () => void>();
  private nextToken = 1;

  constructor(worker: Worker) {
    this.worker = worker;
    this.worker.onmessage = (event: MessageEvent<FromWorker>): void => this.onMessage(event.data);
  }

  onConnection(listener: (connection: Connection) => void): Disposable {
    return this.connections.addListener(listener);
  }

  onEvents(listener: (events: readonly HubEvent[]) => void): Disposable {
    return this.hubEvents.addListener(listener);
  }

  onView(listener: (view: SlotView) => void): Disposable {
    return this.views.addListener(listener);
  }

  onTraffic(listener: (traffic: Traffic) => void): Disposable {
    return this.traffics.addListener(listener);
  }

  /** Connects, or connects again at once. */
  start(socketUrl: string, capacity: number): void {
    this.post({ kind: 'start', socketUrl, capacity });
  }

  request(method: string, params: unknown): Promise<Answer> {
    const token = this.nextToken++;
    return new Promise((resolve) => {
      this.answers.set(token, resolve);
      this.post({ kind: 'request', token, method, params });
    });
  }

  /** Sets the query of a slot; null shows nothing. */
  query(slot: Slot, query: ViewQuery | null): void {
    this.post({ kind: 'query', slot, query });
  }

  /** A view of the store's current records with every number, for export. Only of the hub's own run. */
  whole(query: ViewQuery): Promise<View> {
    const token = this.nextToken++;
    return new Promise((resolve) => {
      this.wholes.set(token, resolve);
      this.post({ kind: 'whole', token, query });
    });
  }

  /** The losses of another run, by step ascending; thinned out if there are very many. */
  lossesOf(run: string): Promise<readonly StepLoss[]> {
    const token = this.nextToken++;
    return new Promise((resolve) => {
      this.losses.set(token, resolve);
      this.post({ kind: 'losses', token, run });
    });
  }

  /** Requests the list of other runs again; it arrives as an event. */
  askRuns(): void {
    this.post({ kind: 'runs' });
  }

  /** Sends the records of an answer to the worker. `whole` views of this prompt set are built from them. */
  keep(records: ArrayBuffer, promptSet: number): void {
    this.post({ kind: 'keep', records, promptSet });
  }

  /** Tells the worker that the last view of a slot is drawn, so that it may send the next view. */
  drawn(slot: Slot): void {
    this.post({ kind: 'drawn', slot });
  }

  /** Resolves when the worker has handled all earlier messages and its answers have arrived. */
  sync(): Promise<void> {
    const token = this.nextToken++;
    return new Promise((resolve) => {
      this.syncs.set(token, resolve);
      this.post({ kind: 'sync', token });
    });
  }

  private onMessage(message: FromWorker): void {
    switch (message.kind) {
      case 'connection':
        this.connections.emit(message.connection);
        break;
      case 'events':
        this.hubEvents.emit(message.events);
        break;
      case 'view':
        this.views.emit(message);
        break;
      case 'traffic':
        this.traffics.emit(message.traffic);
        break;
      case 'answer':
        this.answers.get(message.token)?.(message.answer);
        this.answers.delete(message.token);
        break;
      case 'whole':
        this.wholes.get(message.token)?.(message.view);
        this.wholes.delete(message.token);
        break;
      case 'losses':
        this.losses.get(message.token)?.(message.losses);
        this.losses.delete(message.token);
        break;
      case 'synced':
        this.syncs.get(message.token)?.();
        this.syncs.delete(message.token);
        break;
    }
  }

  private post(message: ToWorker): void {
    this.worker.postMessage(message);
  }
}
