import {
  type Answer,
  type Hello,
  helloSchema,
  type Notification,
  parseTextMessage,
} from './messages';
import type { Pipe, PipeFactory } from './pipe';
import type { TensorRecord } from './record';
import { decodeRecords } from './record_reader';

export interface HubClientListener {
  onHello(hello: Hello): void;
  onNotification(notification: Notification): void;
  onRecords(records: readonly TensorRecord[], bytes: number): void;
  /** A binary message was processed, readable or not. `acknowledge` makes room for the next one. */
  onTaken(): void;
  /** The hub refused the hello. A new connection would not help. */
  onRefused(message: string): void;
  /** A message could not be read and was ignored. */
  onProblem(message: string): void;
  /** `opened` is true for a lost connection, and false if no connection was established. */
  onClosed(opened: boolean): void;
}

/**
 * The number of binary messages that the hub sends before it waits for an acknowledgement. Further
 * records wait in the hub, where newer records replace them. With 1, a page that processes one
 * message per second shows data that is about one second old; each further message adds one second.
 */
export const kWindow = 1;

function disconnected(message: string): Answer {
  const remedy = 'the page reconnects by itself; try again then';
  return { id: 0, ok: false, error: { code: 'disconnected', message, where: undefined, remedy } };
}

/** The answer to a request that was not sent. */
export const kNotConnected = disconnected('the page is not connected to the hub');

/** The hub closes the connection of a viewer that sends more. */
const kMaxRequestBytes = 65_536;

function tooLarge(bytes: number): Answer {
  const message = `the request has ${bytes} bytes, and the hub takes at most ${kMaxRequestBytes}`;
  const remedy = 'give a shorter text or fewer entries';
  return { id: 0, ok: false, error: { code: 'too_large', message, where: undefined, remedy } };
}

/** Replaces halves of characters, which the hub cannot read. */
function whole(_: string, value: unknown): unknown {
  return typeof value === 'string' ? value.replace(/\p{Surrogate}/gu, '\ufffd') : value;
}

/** A typed client of the hub over any pipe. One object for each connection. */
export class HubClient {
  private readonly pipe: Pipe;
  private readonly pending = new Map<number, (answer: Answer) => void>();
  private nextId = 1;
  private taken = 0;
  private opened = false;
  private closed = false;

  constructor(
    connect: PipeFactory,
    private readonly listener: HubClientListener,
    private readonly name: string,
  ) {
    this.pipe = connect({
      onOpen: () => {
        this.opened = true;
        void this.hello();
      },
      onText: (text) => this.onText(text),
      onBinary: (bytes) => this.onBinary(bytes),
      onClosed: () => this.onClosed(),
    });
  }

  /**
   * Sends a request; without a connection, the answer is an error with the code `disconnected`, and for
   * a request that is too long for the hub, one with the code `too_large`.
   */
  request(method: string, params: unknown): Promise<Answer> {
    if (this.closed || !this.opened) return Promise.resolve(kNotConnected);
    const id = this.nextId++;
    const text = JSON.stringify(
      params === undefined ? { id, method } : { id, method, params },
      whole,
    );
    const bytes = new TextEncoder().encode(text).length;
    if (bytes > kMaxRequestBytes) return Promise.resolve(tooLarge(bytes));
    return new Promise((resolve) => {
      this.pending.set(id, resolve);
      this.pipe.send(text);
    });
  }

  /** Sends the hub the number of binary messages that were processed since the hello. */
  acknowledge(): void {
    if (this.closed || this.taken === 0) return;
    this.pipe.send(JSON.stringify({ event: 'ack', params: { messages: this.taken } }));
  }

  close(): void {
    this.pipe.close();
    this.onClosed();
  }

  private async hello(): Promise<void> {
    const answer = await this.request('hello', {
      versions: [1],
      role: 'viewer',
      client: this.name,
      window: kWindow,
      // A viewer that watches starts a run that waits for a viewer. The page subscribes later.
      watch: false,
    });
    if (this.closed) return;
    if (!answer.ok) {
      this.listener.onRefused(answer.error.message);
      return;
    }
    try {
      this.listener.onHello(helloSchema(answer.result, 'result'));
    } catch (error) {
      this.listener.onRefused(`the hub's greeting cannot be read: ${String(error)}`);
    }
  }

  private onText(text: string): void {
    try {
      const message = parseTextMessage(text);
      if (message.kind === 'notification') {
        this.listener.onNotification(message.notification);
      } else if (message.kind === 'answer') {
        const resolve = this.pending.get(message.answer.id);
        this.pending.delete(message.answer.id);
        resolve?.(message.answer);
      }
    } catch (error) {
      this.listener.onProblem(`text message: ${String(error)}`);
    }
  }

  private onBinary(bytes: ArrayBuffer): void {
    try {
      this.listener.onRecords(decodeRecords(bytes), bytes.byteLength);
    } catch (error) {
      this.listener.onProblem(`binary message: ${String(error)}`);
    }
    this.taken += 1;
    this.listener.onTaken();
  }

  private onClosed(): void {
    if (this.closed) return;
    this.closed = true;
    const answer = disconnected('the connection to the hub ended before the answer');
    for (const resolve of this.pending.values()) resolve(answer);
    this.pending.clear();
    this.listener.onClosed(this.opened);
  }
}
