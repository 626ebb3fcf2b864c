import { createReadStream, existsSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { type WebSocket, WebSocketServer } from 'ws';
import { kPoints, kRunId, logitAt, stepFacts, tileValue } from './fake_data.ts';
import { factsOf } from './fake_facts.ts';
import { answerHistory, type OtherPast, type Past } from './fake_history.ts';
import { encodeRecord } from './fake_record.ts';
import { type Entry, recordsOf } from './fake_tensors.ts';

type Json = Record<string, unknown>;
interface Viewer {
  readonly socket: WebSocket;
  readonly session: string;
  greeted: boolean;
}
interface Message {
  readonly id: number;
  readonly method: string;
  readonly event?: string;
  readonly params?: Json;
}
interface Holder {
  readonly session: string;
  readonly name: string;
}

const kCsp =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; worker-src 'self' blob:; " +
  "frame-ancestors 'none'; base-uri 'none'";
const kTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

export interface FakeHubOptions {
  readonly dist: string;
  readonly port?: number;
  readonly firstStep?: number;
  /** 0: steps come only from `advance`. */
  readonly intervalMs?: number;
  /** Cells that are not finite: (layer, token, tile) -> value. */
  readonly poison?: (layer: number, token: number, tile: number) => number | undefined;
}

/** A stand-in for hub and trainer that speaks docs/protocol.md to viewers. */
export class FakeHub {
  readonly token = 'secret-token-0123456789';
  /** The highest count of binary messages that a page has acknowledged. */
  acknowledged = 0;
  /** A token that only views: told in the hello, or only when control is claimed. */
  viewOnly: 'told' | 'silent' | null = null;
  /** Null while the run is live. */
  replay: { paused: boolean; speed: number; first_step: number; last_step: number } | null = null;
  /** What the model predicts. */
  logit = logitAt;
  /** Recordings that it was started with to compare. */
  others: readonly OtherPast[] = [];
  /** Steps that the history has no records of; null: it keeps nothing at all. */
  holes: Set<number> | null = new Set();
  readonly requests: { readonly method: string; readonly params: Json }[] = [];
  step: number;
  phase = 'training';
  /** The oldest step whose scalars it still knows. */
  firstKept = 1;
  holder: Holder | null = null;
  plan: { number: number; entries: readonly Entry[] } = {
    number: 1,
    entries: [
      {
        point: 'HiddenStates',
        layers: '1-4',
        phases: ['train', 'eval'],
        compressor: { kind: 'tile', tiles: 64 },
      },
      { point: 'MLP1', layers: '1-4', compressor: { kind: 'tile', tiles: 32 } },
      { point: 'InputTokens', compressor: { kind: 'none' } },
    ],
  };
  private server: Server | undefined;
  private sockets: WebSocketServer | undefined;
  private timer: NodeJS.Timeout | undefined;
  private readonly viewers = new Set<Viewer>();
  private sequence = 0;
  private sessions = 0;

  constructor(private readonly options: FakeHubOptions) {
    this.step = options.firstStep ?? 120;
  }

  get port(): number {
    return (this.server?.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/#token=${this.token}`;
  }

  async start(port = this.options.port ?? 0): Promise<void> {
    const server = createServer((request, response) => this.onRequest(request, response));
    const sockets = new WebSocketServer({ noServer: true });
    server.on('upgrade', (request, socket, head) => {
      if (!this.allowed(request)) {
        socket.end('HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\n');
        return;
      }
      sockets.handleUpgrade(request, socket, head, (each) => this.onViewer(each));
    });
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    this.server = server;
    this.sockets = sockets;
    const interval = this.options.intervalMs ?? 0;
    if (interval > 0) this.timer = setInterval(() => this.tick(), interval);
  }

  /** Dies like a killed process: every connection ends at once. */
  async stop(): Promise<void> {
    clearInterval(this.timer);
    for (const viewer of this.viewers) viewer.socket.terminate();
    this.viewers.clear();
    this.sockets?.close();
    this.server?.closeAllConnections();
    await new Promise((resolve) => this.server?.close(resolve));
  }

  /** Trains one step and tells every viewer. */
  advance(): void {
    this.step += 1;
    this.broadcast('state', this.state());
    for (const viewer of this.viewers) this.sendRecords(viewer, this.step);
    this.broadcast('step', stepFacts(this.step));
  }

  broadcast(event: string, params: unknown): void {
    for (const { socket, greeted } of this.viewers) {
      if (greeted) socket.send(JSON.stringify({ event, params }));
    }
  }

  setHolder(holder: Holder | null): void {
    this.holder = holder;
    this.broadcast('control', { holder });
  }

  setPhase(phase: string): void {
    this.phase = phase;
    this.broadcast('state', this.state());
  }

  /** Plays a recording from here on, paused. */
  setReplay(first: number, last: number): void {
    this.replay = { paused: true, speed: 1, first_step: first, last_step: last };
    this.setPhase('replay');
  }

  private state(): Json {
    return { phase: this.phase, step: this.step, ...this.replay };
  }

  private past(): Past | null {
    if (this.holes === null) return null;
    const { plan, holes, firstKept: first } = this;
    const last = this.replay?.last_step ?? this.step;
    return { first, last, holes, plan, value: this.value.bind(this) };
  }

  /** What the wire carries for one tile, as float32. */
  value(
    flag: number,
    layer: number,
    step: number,
    token: number,
    tile: number,
    tiles: number,
  ): number {
    const poisoned = this.options.poison?.(layer, token, tile);
    return Math.fround(poisoned ?? tileValue(flag, layer, step, token, tile, tiles));
  }

  private tick(): void {
    if (this.phase === 'training') this.advance();
  }

  private allowed(request: IncomingMessage): boolean {
    const cookie = request.headers.cookie ?? '';
    return cookie.includes(`tt-${kRunId}=${this.token}`);
  }

  private onRequest(request: IncomingMessage, response: ServerResponse): void {
    response.setHeader('Content-Security-Policy', kCsp);
    const path = (request.url ?? '/').split('?')[0];
    if (request.method === 'POST' && path === '/auth') {
      let body = '';
      request.on('data', (part: Buffer) => (body += part.toString()));
      request.on('end', () => {
        const good = (JSON.parse(body) as { token?: unknown }).token === this.token;
        const cookie = `tt-${kRunId}=${this.token}; HttpOnly; SameSite=Strict; Path=/`;
        if (good) response.setHeader('Set-Cookie', cookie);
        response.writeHead(good ? 204 : 401).end();
      });
      return;
    }
    if (path === '/ws') {
      response.writeHead(this.allowed(request) ? 426 : 401).end();
      return;
    }
    if (path.startsWith('/history')) {
      const url = new URL(request.url ?? '/', 'http://hub');
      if (this.allowed(request)) answerHistory(url, this.past(), this.others, response);
      else response.writeHead(401).end();
      return;
    }
    const file = join(this.options.dist, normalize(path === '/' ? '/index.html' : path));
    if (!file.startsWith(this.options.dist) || !existsSync(file)) {
      response.writeHead(404).end();
      return;
    }
    response.setHeader('Content-Type', kTypes[extname(file)] ?? 'application/octet-stream');
    createReadStream(file).pipe(response);
  }

  private onViewer(socket: WebSocket): void {
    const viewer: Viewer = { socket, session: `v${++this.sessions}`, greeted: false };
    this.viewers.add(viewer);
    socket.on('close', () => this.viewers.delete(viewer));
    socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as Message;
      if (message.event === 'ack') {
        this.acknowledged = Number(message.params?.messages);
        return;
      }
      this.requests.push({ method: message.method, params: message.params ?? {} });
      this.answer(viewer, message.id, message.method, message.params ?? {});
    });
  }

  private answer(viewer: Viewer, id: number, method: string, params: Json): void {
    const result = (value: unknown): void =>
      viewer.socket.send(JSON.stringify({ id, result: value }));
    const error = (code: string, message: string, where?: string, remedy?: string): void =>
      viewer.socket.send(JSON.stringify({ id, error: { code, message, where, remedy } }));
    const boundary = { step: this.step, ranks: 2 };
    const holds = this.holder?.session === viewer.session;
    switch (method) {
      case 'hello':
        this.hello(viewer, result);
        return;
      case 'ping':
      case 'subscribe':
        result({});
        return;
      case 'control.claim':
        if (this.viewOnly !== null) {
          error('not_allowed', 'this token only views');
          return;
        }
        if (this.holder !== null && !holds && params.take_over !== true) {
          error('busy', `${this.holder.name} holds control`, undefined, 'ask, or take over');
          return;
        }
        result({ lease_seconds: 30 });
        this.setHolder({ session: viewer.session, name: String(params.name) });
        return;
      case 'control.release':
        result({});
        this.setHolder(null);
        return;
    }
    if (!holds) {
      error(
        'not_controller',
        'only the holder of the lease may do this',
        undefined,
        'claim control',
      );
    } else if (method === 'control.stop') {
      this.setPhase('finished');
      result(boundary);
    } else if (this.replay !== null) {
      this.answerReplay(this.replay, method, params);
      result({ step: this.step, ranks: 0 });
    } else if (method === 'control.pause') {
      this.setPhase('paused');
      result(boundary);
    } else if (method === 'control.continue') {
      this.setPhase('training');
      result(boundary);
    } else if (method === 'control.step') {
      this.phase = 'paused';
      this.advance();
      result({ ...boundary, step: this.step });
    } else if (method === 'plan.set') {
      this.setPlan(params.plan as { entries: readonly Entry[] }, result, error);
    } else {
      error('unknown_method', method);
    }
  }

  private answerReplay(replay: NonNullable<FakeHub['replay']>, method: string, params: Json): void {
    if (method === 'replay.seek') {
      this.step = Number(params.step);
      for (const viewer of this.viewers) this.sendRecords(viewer, this.step);
    } else if (method === 'replay.speed') {
      replay.speed = Number(params.speed);
    } else {
      replay.paused = method !== 'control.continue';
    }
    if (method === 'control.step') this.advance();
    else this.broadcast('state', this.state());
  }

  private setPlan(
    plan: { entries: readonly Entry[] },
    result: (value: unknown) => void,
    error: (code: string, message: string, where?: string, remedy?: string) => void,
  ): void {
    for (const [i, entry] of plan.entries.entries()) {
      const point = kPoints.find(({ name }) => name === entry.point);
      const tiles = entry.compressor?.tiles ?? 1;
      if (entry.point === 'QKV' && entry.compressor?.kind === 'projection') {
        const text = '"evil" has 256 numbers, QKV has 768 features';
        const remedy = 'project a point of the residual stream, such as HiddenStates';
        error('invalid_argument', text, `plan.entries[${i}].compressor.vectors`, remedy);
        return;
      }
      if (point === undefined || (point.features > 0 && tiles > point.features)) {
        const at = `plan.entries[${i}].compressor.tiles`;
        const features = point?.features ?? 0;
        const text = `${tiles} tiles of ${features} features`;
        error('invalid_argument', text, at, `ask for at most ${features} tiles`);
        return;
      }
    }
    this.plan = { number: this.plan.number + 1, entries: plan.entries };
    result({ step: this.step + 1, ranks: 2, plan: this.plan });
    this.broadcast('plan', { plan: this.plan, step: this.step + 1 });
  }

  private hello(viewer: Viewer, result: (value: unknown) => void): void {
    result({
      version: 1,
      session: viewer.session,
      hub: '0.1.0',
      run: factsOf(this.plan),
      state: this.state(),
      control: { holder: this.holder },
      ...(this.viewOnly === 'told' ? { may_control: false } : {}),
    });
    viewer.greeted = true;
    for (let step = Math.max(this.firstKept, this.step - 1999); step <= this.step; step++) {
      viewer.socket.send(JSON.stringify({ event: 'step', params: stepFacts(step) }));
    }
    this.sendRecords(viewer, this.step);
  }

  private sendRecords(viewer: Viewer, step: number): void {
    if (!viewer.greeted) return;
    const run = BigInt(`0x${kRunId}`);
    const value = this.value.bind(this);
    const parts = this.plan.entries.flatMap((entry, index) =>
      recordsOf(entry, step, value, this.logit).map(({ fields, payload }) => {
        this.sequence += 1;
        const about = { run, sequence: this.sequence, plan: this.plan.number, step, entry: index };
        return encodeRecord({ ...about, ...fields }, payload);
      }),
    );
    if (parts.length > 0) viewer.socket.send(Buffer.concat(parts));
  }
}
