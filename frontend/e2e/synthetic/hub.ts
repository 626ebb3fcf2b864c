import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import { answerAuth, hasCookie } from './fake_auth.ts';
import { kLayers, kRunId, stepFacts, tileValue } from './fake_data.ts';
import { factsOf } from './fake_facts.ts';
import { sendFile } from './fake_files.ts';
import { answerHistory, type Past } from './fake_history.ts';
import { FakeInterventions } from './fake_interventions.ts';
import { encodeRecord } from './fake_record.ts';
import { answerCheck, refusalOf } from './fake_plan.ts';
import { type Entry, recordsOf } from './fake_tensors.ts';
import { FakeTrail } from './fake_trail.ts';

type Json = Record<string, unknown>;
interface Viewer {
  readonly socket: WebSocket;
  readonly session: string;
  greeted: boolean;
  /** It gets records. */
  watches: boolean;
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

export interface FakeHubOptions {
  readonly dist: string;
  readonly port?: number;
  readonly firstStep?: number;
  /** Without it steps come only from `advance`. */
  readonly intervalMs?: number;
}

/** A stand-in for hub and trainer that speaks docs/protocol.md to viewers. */
export class FakeHub {
  readonly token = 'secret-token-0123456789';
  /** The highest count of binary messages that a page has acknowledged. */
  acknowledged = 0;
  /** A token that only views: told in the hello, or only when control is claimed. */
  viewOnly: 'told' | 'silent' | null = null;
  /** It takes no more viewers. */
  full = false;
  /** Why `plan.check` is not answered. */
  noCheck: { readonly code: string; readonly message: string } | null = null;
  /** While set, `plan.check` waits: its answers are sent when this is called. */
  heldChecks: (() => void)[] | null = null;
  keepsHistory = true;
  /** Steps that the history has no records of. */
  readonly holes = new Set<number>();
  readonly requests: { readonly method: string; readonly params: Json }[] = [];
  /** What `/history/events` tells. */
  readonly trail = new FakeTrail();
  readonly interventions = new FakeInterventions(this);
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
  private readonly gone = new Set<string>();
  /** Pipeline stages, each with a leader that sends the records of its layers. */
  stages = 1;
  /** Stages whose records get lost on their way. */
  readonly silent = new Set<number>();
  private readonly sequences: number[] = [];
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
      const refuse = (why: string): unknown => socket.end(`HTTP/1.1 ${why}\r\n\r\n`);
      if (!hasCookie(request, this.token)) refuse('401 Unauthorized');
      else if (this.full) refuse('503 Service Unavailable');
      else sockets.handleUpgrade(request, socket, head, (each) => this.onViewer(each));
    });
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    [this.server, this.sockets] = [server, sockets];
    const { intervalMs } = this.options;
    if (intervalMs !== undefined) this.timer = setInterval(() => this.tick(), intervalMs);
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
    this.interventions.stepped(this.step);
  }

  broadcast(event: string, params: unknown): void {
    this.trail.note(event, params, this.step);
    for (const { socket, greeted } of this.viewers) {
      if (greeted) socket.send(JSON.stringify({ event, params }));
    }
  }

  /** A binary message of a test's own making. */
  sendBinary(message: Buffer): void {
    for (const { socket, greeted } of this.viewers) if (greeted) socket.send(message);
  }

  setHolder(holder: Holder | null): void {
    this.holder = holder;
    this.broadcast('control', { holder });
  }

  setPhase(phase: string): void {
    this.phase = phase;
    this.broadcast('state', this.state());
  }

  private state(): Json {
    return { phase: this.phase, step: this.step };
  }

  private past(): Past | null {
    if (!this.keepsHistory) return null;
    return {
      first: this.firstKept,
      last: this.step,
      trail: this.trail.lines,
      recordsAt: (step, point, entry) =>
        this.plan.entries.flatMap((each, index) => {
          const isAsked = each.point === point && (entry ?? String(index)) === String(index);
          if (!isAsked || this.holes.has(step)) return [];
          return this.encoded(each, index, step, () => 1);
        }),
    };
  }

  /** What the wire carries for one tile, as float32. */
  value(...place: Parameters<typeof tileValue>): number {
    return Math.fround(tileValue(...place));
  }

  private tick(): void {
    if (this.phase === 'training') this.advance();
  }

  private onRequest(request: IncomingMessage, response: ServerResponse): void {
    response.setHeader('Content-Security-Policy', kCsp);
    const path = (request.url ?? '/').split('?')[0];
    if (request.method === 'POST' && path === '/auth') {
      answerAuth(request, this.token, response);
      return;
    }
    if (path === '/ws') {
      response.writeHead(hasCookie(request, this.token) ? 426 : 401).end();
      return;
    }
    if (path.startsWith('/history')) {
      const url = new URL(request.url ?? '/', 'http://hub');
      if (hasCookie(request, this.token)) answerHistory(url, this.past(), response);
      else response.writeHead(401).end();
      return;
    }
    sendFile(this.options.dist, path, response);
  }

  private onViewer(socket: WebSocket): void {
    const viewer: Viewer = {
      socket,
      session: `v${++this.sessions}`,
      greeted: false,
      watches: false,
    };
    this.viewers.add(viewer);
    socket.on('close', () => {
      this.viewers.delete(viewer);
      this.gone.add(viewer.session);
    });
    socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as Message;
      if (message.event === 'ack') {
        this.acknowledged = Number(message.params?.messages);
        return;
      }
      if (message.method !== 'subscribe') {
        this.requests.push({ method: message.method, params: message.params ?? {} });
      }
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
        result({});
        return;
      case 'subscribe':
        result({});
        viewer.watches = true;
        if (this.phase === 'waiting') this.setPhase('training');
        this.sendRecords(viewer, this.step);
        return;
      case 'control.claim':
        if (this.viewOnly !== null) {
          error('not_allowed', 'this token allows only viewing');
          return;
        }
        if (
          this.holder !== null &&
          !holds &&
          !this.gone.has(this.holder.session) &&
          params.take_over !== true
        ) {
          error('busy', `${this.holder.name} holds control`, undefined, 'ask, or take over');
          return;
        }
        result({ lease_seconds: 30 });
        this.trail.add(
          method,
          this.step,
          { take_over: params.take_over },
          viewer.session,
          String(params.name),
        );
        this.setHolder({ session: viewer.session, name: String(params.name) });
        return;
      case 'control.release':
        result({});
        this.trail.add(method, this.step, {}, viewer.session, this.holder?.name);
        this.setHolder(null);
        return;
      case 'plan.check': {
        const { entries } = params.plan as { entries: readonly Entry[] };
        const answer = (): void => answerCheck(entries, this.noCheck, result, error);
        if (this.heldChecks === null) answer();
        else this.heldChecks.push(answer);
        return;
      }
      case 'intervention.check':
        if (this.viewOnly === null) this.interventions.check(params, { result, error });
        else error('not_allowed', 'this token allows only viewing');
        return;
    }
    const done = (value: { readonly step: number }): void => {
      const detail = { params, result: value, step: value.step };
      this.trail.add(method, value.step, detail, viewer.session, this.holder?.name);
      result(value);
    };
    if (!holds) {
      error(
        'not_controller',
        'only the holder of the lease may do this',
        undefined,
        'claim control',
      );
    } else if (method === 'control.stop') {
      this.setPhase('stopped');
      done(boundary);
    } else if (method === 'control.pause') {
      this.setPhase('paused');
      done(boundary);
    } else if (method === 'control.continue') {
      this.setPhase('training');
      done(boundary);
    } else if (method === 'control.step') {
      this.phase = 'paused';
      this.advance();
      done({ ...boundary, step: this.step });
    } else if (method === 'plan.set') {
      this.setPlan(params.plan as { entries: readonly Entry[] }, done, error);
    } else {
      const reply = (value: unknown): void => done(value as { step: number });
      this.interventions.answer(method, params, { result: reply, error });
    }
  }

  private setPlan(
    plan: { entries: readonly Entry[] },
    result: (value: { readonly step: number; readonly [member: string]: unknown }) => void,
    error: (code: string, message: string, where?: string, remedy?: string) => void,
  ): void {
    const refusal = refusalOf(plan.entries);
    if (refusal !== null) {
      error(refusal.code, refusal.message, refusal.where, refusal.remedy);
      return;
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
      run: factsOf(this.plan, this.interventions.programs),
      state: this.state(),
      control: { holder: this.holder },
      ...(this.viewOnly === 'told' ? { may_control: false } : {}),
    });
    viewer.greeted = true;
    for (let step = Math.max(this.firstKept, this.step - 1999); step <= this.step; step++) {
      viewer.socket.send(JSON.stringify({ event: 'step', params: stepFacts(step) }));
    }
  }

  private sendRecords(viewer: Viewer, step: number): void {
    if (!viewer.watches) return;
    const sequenceOf = (stage: number): number | null => {
      const sequence = (this.sequences[stage] = (this.sequences[stage] ?? 0) + 1);
      return this.silent.has(stage) ? null : sequence;
    };
    const { entries } = this.plan;
    const parts = entries.flatMap((each, index) => this.encoded(each, index, step, sequenceOf));
    if (parts.length > 0) viewer.socket.send(Buffer.concat(parts));
  }

  /** What an entry sends at a step; a record without a number is lost. */
  private encoded(
    entry: Entry,
    index: number,
    step: number,
    sequenceOf: (stage: number) => number | null,
  ): Buffer[] {
    const about = { run: BigInt(`0x${kRunId}`), plan: this.plan.number, step, entry: index };
    return recordsOf(entry, step, this.value.bind(this)).flatMap(({ fields, payload }) => {
      const pipelineRank = Math.floor((Math.max(0, fields.layer - 1) * this.stages) / kLayers);
      const sequence = sequenceOf(pipelineRank);
      if (sequence === null) return [];
      return [encodeRecord({ ...about, sequence, pipelineRank, ...fields }, payload)];
    });
  }
}
