import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import { kRunId, stepFacts } from './data.ts';
import { factsOf } from './facts.ts';
import { sendFile } from './files.ts';
import { answerHistory, type Past } from './history.ts';
import { encodeRecord } from './record.ts';
import { type Entry, recordsOf } from './records.ts';

interface Viewer {
  readonly socket: WebSocket;
  /** It gets records. */
  watches: boolean;
}
interface Message {
  readonly id: number;
  readonly method: string;
  readonly event?: string;
  readonly params?: Readonly<Record<string, unknown>>;
}
interface Plan {
  readonly number: number;
  readonly entries: readonly Entry[];
}

/**
 * A source of synthetic records for the programs that measure the page (scripts/measure_*.mjs): faster than a trainer
 * on this machine, and without its use of the CPU. It answers `hello` and `subscribe`, and the history; no test uses it.
 */
export class SyntheticHub {
  /** The highest count of binary messages that a page has acknowledged. */
  acknowledged = 0;
  step: number;
  plan: Plan = {
    number: 1,
    entries: [
      { point: 'HiddenStates', layers: '1-4', compressor: { kind: 'tile', tiles: 64 } },
      { point: 'MLP1', layers: '1-4', compressor: { kind: 'tile', tiles: 32 } },
      { point: 'InputTokens', compressor: { kind: 'none' } },
    ],
  };
  private server: Server | undefined;
  private sockets: WebSocketServer | undefined;
  private readonly viewers = new Set<Viewer>();
  private sequence = 0;

  constructor(private readonly options: { readonly dist: string; readonly firstStep?: number }) {
    this.step = options.firstStep ?? 120;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server?.address() as AddressInfo).port}/`;
  }

  async start(): Promise<void> {
    const server = createServer((request, response) => this.onRequest(request, response));
    this.sockets = new WebSocketServer({ server, path: '/ws' });
    this.sockets.on('connection', (socket) => this.onViewer(socket));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    this.server = server;
  }

  async stop(): Promise<void> {
    for (const { socket } of this.viewers) socket.terminate();
    this.sockets?.close();
    this.server?.closeAllConnections();
    await new Promise((resolve) => this.server?.close(resolve));
  }

  /** Does one step. */
  advance(): void {
    this.step += 1;
    this.broadcast('state', this.state());
    for (const viewer of this.viewers) this.sendRecords(viewer);
    this.broadcast('step', stepFacts(this.step));
  }

  broadcast(event: string, params: unknown): void {
    for (const { socket } of this.viewers) socket.send(JSON.stringify({ event, params }));
  }

  sendBinary(message: Buffer): void {
    for (const { socket } of this.viewers) socket.send(message);
  }

  private state(): Readonly<Record<string, unknown>> {
    return { phase: 'training', step: this.step };
  }

  private past(): Past {
    return {
      last: this.step,
      recordsAt: (step, point, entry) =>
        this.plan.entries.flatMap((each, index) => {
          const isAsked = each.point === point && (entry ?? String(index)) === String(index);
          return isAsked ? this.encoded(each, index, step) : [];
        }),
    };
  }

  private onRequest(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', 'http://hub');
    if (url.pathname.startsWith('/history')) answerHistory(url, this.past(), response);
    else sendFile(this.options.dist, url.pathname, response);
  }

  private onViewer(socket: WebSocket): void {
    const viewer: Viewer = { socket, watches: false };
    socket.on('close', () => this.viewers.delete(viewer));
    socket.on('message', (data: Buffer) => {
      const { id, method, event, params } = JSON.parse(data.toString()) as Message;
      if (event === 'ack') this.acknowledged = Number(params?.messages);
      else this.answer(viewer, id, method);
    });
  }

  private answer(viewer: Viewer, id: number, method: string): void {
    const result = method === 'hello' ? this.hello() : {};
    viewer.socket.send(JSON.stringify({ id, result }));
    if (method === 'hello') {
      this.viewers.add(viewer);
      for (let step = Math.max(1, this.step - 1999); step <= this.step; step++)
        viewer.socket.send(JSON.stringify({ event: 'step', params: stepFacts(step) }));
    } else if (method === 'subscribe') {
      viewer.watches = true;
      this.sendRecords(viewer);
    }
  }

  private hello(): unknown {
    return {
      version: 1,
      session: 'v1',
      hub: 'synthetic',
      run: factsOf(this.plan),
      state: this.state(),
      control: { holder: null },
    };
  }

  private sendRecords({ watches, socket }: Viewer): void {
    if (!watches) return;
    const parts = this.plan.entries.flatMap((each, index) => this.encoded(each, index, this.step));
    if (parts.length > 0) socket.send(Buffer.concat(parts));
  }

  /** The records of an entry at a step. */
  private encoded(entry: Entry, index: number, step: number): Buffer[] {
    const about = { run: BigInt(`0x${kRunId}`), plan: this.plan.number, step, entry: index };
    return recordsOf(entry, step).map(({ fields, payload }) =>
      encodeRecord({ ...about, sequence: ++this.sequence, ...fields }, payload),
    );
  }
}
