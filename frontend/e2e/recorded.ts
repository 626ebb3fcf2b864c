import { expect } from '@playwright/test';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { WebSocket } from 'ws';
import { addressOf, kDist, kPython, test as base } from './support.ts';

// A test with a real run: the real hub replays recorded/session.ttrec.gz, which make_recording.py made.
// What a test expects is what the Python client reads of the same file.

export const kLayers = 4;
export const kHeads = 4;
export const kTokens = 32;
export const kTiles = 8;
/** The tokens of whose attention there are records, as queries. */
export const kQueries = 16;
export const kPrompts = ['Once upon a time', 'def f('] as const;
/** In this step a program makes the output of layer 2 nine times as large. */
export const kSpike = 36;
/** In this step, the last, a program writes NaN and infinities to tile 0 of these tokens of layer 2. */
export const kBroken = { step: 40, layer: 2, nan: 10, inf: 12, minusInf: 14 } as const;

/** The entries of the recorded plan. */
export const kEntry = {
  tiles: 0,
  mlp: 1,
  stats: 2,
  prompts: 3,
  projection: 4,
  attention: 5,
  topk: 6,
  gradient: 7,
  norm: 8,
  tokens: 14,
} as const;
type EntryName = keyof typeof kEntry;

interface Told {
  readonly facts: { readonly id: string; readonly name: string };
  readonly scalars: Readonly<Record<string, { readonly steps: number[]; readonly values: string }>>;
  readonly records: readonly {
    readonly entry: number;
    readonly step: number;
    readonly layer: number;
    readonly phase: string;
    readonly shape: readonly number[];
    readonly values: string;
  }[];
}

const kRecorded = fileURLToPath(new URL('recorded/session.ttrec.gz', import.meta.url));
const kReader = fileURLToPath(new URL('recorded/expected.py', import.meta.url));
const kFolder =
  process.env.TT_BIN_DIR ?? fileURLToPath(new URL('../../build/release/bin', import.meta.url));

function doubles(text: string): Float64Array {
  const bytes = Uint8Array.from(Buffer.from(text, 'base64'));
  return new Float64Array(bytes.buffer);
}

/** What the Python client reads of the recording. */
export class Expected {
  private readonly places = new Map<string, Float64Array>();
  readonly facts: Told['facts'];

  constructor(private readonly told: Told) {
    this.facts = told.facts;
    for (const { entry, step, layer, phase, values } of told.records) {
      this.places.set([entry, step, layer, phase].join(), doubles(values));
    }
  }

  /** The numbers of a record, row by row. */
  values(name: EntryName, layer: number, step: number, phase = 'train'): Float64Array {
    const found = this.places.get([kEntry[name], step, layer, phase].join());
    if (found === undefined) throw new Error(`no record of ${name}, layer ${layer}, step ${step}`);
    return found;
  }

  tile(layer: number, step: number, token: number, tile: number, phase = 'train'): number {
    return this.values('tiles', layer, step, phase)[token * kTiles + tile];
  }

  /** A number of `stats`: ten, 48 bins, then those of the second row. */
  stat(layer: number, step: number, index: number): number {
    return this.values('stats', layer, step)[index];
  }

  attention(layer: number, head: number, query: number, key: number, step: number): number {
    return this.values('attention', layer, step)[(head * kQueries + query) * kTokens + key];
  }

  /** On the direction `evil`. */
  projection(layer: number, step: number, token: number): number {
    return this.values('projection', layer, step)[token];
  }

  best(step: number, token: number, rank: number): { readonly id: number; readonly value: number } {
    const values = this.values('topk', 0, step);
    const at = 5 * token + rank;
    return { value: values[at], id: values[5 * kTokens + at] };
  }

  token(step: number, position: number): number {
    return this.values('tokens', 0, step)[position];
  }

  /** A token as the page writes it. */
  mark(step: number, position: number): string {
    return this.letter(step, position).replace(' ', '␣').replace('\n', '⏎');
  }

  /** The text of tokens. */
  letter(step: number, ...positions: readonly number[]): string {
    return String.fromCharCode(...positions.map((each) => this.token(step, each)));
  }

  /** By step, from 1; NaN where there is none. */
  scalar(name: string): Float64Array {
    const { steps, values } = this.told.scalars[name];
    const numbers = doubles(values);
    const out = new Float64Array(kBroken.step).fill(Number.NaN);
    steps.forEach((step, i) => (out[step - 1] = numbers[i]));
    return out;
  }
}

/** A replay that stands still unless it is told to go on. */
export class Replay {
  private asked = 0;

  constructor(
    readonly url: string,
    readonly expected: Expected,
    private readonly socket: WebSocket,
    public step: number,
  ) {}

  /** The address of a view. */
  at(query: string): string {
    return `${this.url}?${query}`;
  }

  async advance(): Promise<void> {
    await this.control('control.step', { count: 1 });
  }

  async seek(step: number): Promise<void> {
    await this.control('replay.seek', { step });
  }

  private async control(method: string, params: object): Promise<void> {
    await this.ask('control.claim', { name: 'test', take_over: true });
    this.step = (await this.ask(method, params)).step;
    await this.ask('control.release', {});
  }

  async ask(method: string, params: object): Promise<{ readonly step: number }> {
    const id = ++this.asked;
    const answer = new Promise<{ readonly step: number }>((resolve, reject) => {
      const onMessage = (data: Buffer, isBinary: boolean): void => {
        const message = isBinary ? {} : (JSON.parse(data.toString()) as Record<string, unknown>);
        if (message.id !== id) return;
        this.socket.off('message', onMessage);
        if (message.error === undefined) resolve(message.result as { readonly step: number });
        else reject(new Error(`${method}: ${JSON.stringify(message.error)}`));
      };
      this.socket.on('message', onMessage);
    });
    this.socket.send(JSON.stringify({ id, method, params }));
    return answer;
  }
}

/** The unpacked recording, and what is in it. */
interface Recording {
  readonly file: string;
  readonly expected: Expected;
}

interface Fixtures {
  /** The step at which the replay stands at first. */
  readonly firstStep: number;
  readonly recorded: Replay;
}

export const test = base.extend<Fixtures, { readonly recording: Recording }>({
  firstStep: [30, { option: true }],
  recording: [
    async ({}, use) => {
      const folder = mkdtempSync(join(tmpdir(), 'tt-recorded-'));
      const file = join(folder, 'session.ttrec');
      writeFileSync(file, gunzipSync(readFileSync(kRecorded)));
      const options = { encoding: 'utf8', maxBuffer: 64 * 2 ** 20 } as const;
      const text = execFileSync(kPython, [kReader, file], options);
      await use({ file, expected: new Expected(JSON.parse(text) as Told) });
      rmSync(folder, { recursive: true });
    },
    { scope: 'worker' },
  ],
  recorded: async ({ recording, firstStep }, use) => {
    const line = ['replay', recording.file, '--port', '0', '--auth', 'none', '--paused'];
    const replay = spawn(join(kFolder, 'tensor-tracer'), [...line, '--page-dir', kDist]);
    try {
      const url = await addressOf(replay);
      const socket = new WebSocket(`${url.replace('http', 'ws')}ws`);
      await once(socket, 'open');
      const run = new Replay(url, recording.expected, socket, 0);
      await run.ask('hello', { versions: [1], role: 'viewer' });
      await run.seek(firstStep);
      expect(run.step).toBe(firstStep);
      await use(run);
      socket.terminate();
    } finally {
      replay.kill('SIGTERM');
    }
  },
});
