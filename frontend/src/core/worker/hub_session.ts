import { Backoff } from '../../base/backoff';
import { HubClient } from '../../protocol/hub_client';
import type { Answer, Hello, Notification } from '../../protocol/messages';
import type { PipeFactory } from '../../protocol/pipe';
import type { TensorRecord } from '../../protocol/record';
import type { Connection } from './link_messages';

/** The environment of the session: socket, clock, timers and random numbers. Tests replace it. */
export interface SessionEnvironment {
  readonly connect: PipeFactory;
  /** The HTTP status of the same address, after a failed connection; 0 if it is unreachable. */
  probe(): Promise<number>;
  after(seconds: number, action: () => void): void;
  now(): number;
  readonly random: () => number;
}

export interface SessionListener {
  onConnection(connection: Connection): void;
  onHello(hello: Hello): void;
  onNotification(notification: Notification): void;
  onRecords(records: readonly TensorRecord[], bytes: number): void;
  onProblem(message: string): void;
}

const kPingSeconds = 8;
const kAnswerSeconds = 8;
const kLongestAnswerSeconds = 64;
// The hub accepts 100 messages per second from a viewer, and acknowledgements are messages.
const kAckSeconds = 0.025;
const kIsSocket = 426;
const kFull = 'the hub cannot take more viewers: this page connects when another viewer leaves';
const kForbidden = 'the hub refuses this address: open the page as 127.0.0.1 or localhost';

/** Keeps one connection to the hub, without a limit on the attempts, and reports its state. */
export class HubSession {
  private readonly backoff: Backoff;
  private client: HubClient | undefined;
  private isRetry = false;
  private generation = 0;
  private lastAck = Number.NEGATIVE_INFINITY;
  private ackWaits = false;
  /** Doubled each time it was too short: on a slow line, an answer waits behind a large record. */
  private answerSeconds = kAnswerSeconds;

  constructor(
    private readonly environment: SessionEnvironment,
    private readonly listener: SessionListener,
  ) {
    this.backoff = new Backoff(environment.random);
  }

  /** Connects now, even if the session waits for its next attempt. */
  start(): void {
    const generation = ++this.generation;
    this.client?.close();
    const current = (): boolean => generation === this.generation;
    if (!this.isRetry) this.listener.onConnection({ kind: 'connecting' });
    this.client = new HubClient(
      this.environment.connect,
      {
        onHello: (hello) => {
          if (!current()) return;
          this.backoff.reset();
          this.isRetry = false;
          this.listener.onConnection({ kind: 'open' });
          this.listener.onHello(hello);
          this.keepAlive(generation);
        },
        onNotification: (notification) => {
          if (current()) this.listener.onNotification(notification);
        },
        onRecords: (records, bytes) => {
          if (current()) this.listener.onRecords(records, bytes);
        },
        onTaken: () => this.onTaken(),
        onProblem: (message) => this.listener.onProblem(message),
        onRefused: (message) => {
          if (!current()) return;
          this.generation += 1;
          this.listener.onConnection({ kind: 'refused', reason: 'hub', message });
          this.client?.close();
        },
        onClosed: (opened) => {
          if (current()) void this.onClosed(opened, generation);
        },
      },
      'page 0.1',
    );
  }

  request(method: string, params: unknown): Promise<Answer> {
    if (this.client === undefined) throw new Error('the session was not started');
    return this.client.request(method, params);
  }

  /** Acknowledges at once, or a little later together with the next messages. */
  private onTaken(): void {
    if (this.ackWaits) return;
    const wait = kAckSeconds - (this.environment.now() - this.lastAck) / 1000;
    if (wait <= 0) {
      this.acknowledge();
      return;
    }
    this.ackWaits = true;
    this.environment.after(wait, () => {
      this.ackWaits = false;
      this.acknowledge();
    });
  }

  private acknowledge(): void {
    this.lastAck = this.environment.now();
    this.client?.acknowledge();
  }

  private async onClosed(opened: boolean, generation: number): Promise<void> {
    const status = opened ? 0 : await this.environment.probe();
    if (generation !== this.generation) return;
    if (status === 401 || status === 403) {
      this.generation += 1;
      this.listener.onConnection(
        status === 401
          ? { kind: 'refused', reason: 'token', message: 'the hub asks for the token' }
          : { kind: 'refused', reason: 'hub', message: kForbidden },
      );
      return;
    }
    const seconds = this.backoff.next();
    this.isRetry = true;
    // The hub answers HTTP requests, but it did not accept the socket.
    const message = status === kIsSocket ? kFull : '';
    const at = this.environment.now() + seconds * 1000;
    this.listener.onConnection({ kind: 'reconnecting', at, message });
    this.environment.after(seconds, () => {
      if (generation === this.generation) this.start();
    });
  }

  /** Sends pings, to detect a dead connection and to renew the lease. */
  private keepAlive(generation: number): void {
    this.environment.after(kPingSeconds, () => {
      if (generation !== this.generation) return;
      let answered = false;
      // Repeats the last acknowledgement, in case the hub has ignored it.
      this.acknowledge();
      void this.request('ping', undefined).then(() => (answered = true));
      this.environment.after(this.answerSeconds, () => {
        if (generation !== this.generation || answered) return;
        this.answerSeconds = Math.min(2 * this.answerSeconds, kLongestAnswerSeconds);
        this.client?.close();
      });
      this.keepAlive(generation);
    });
  }
}
