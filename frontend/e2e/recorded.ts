import { expect } from '@playwright/test';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { Remote } from './remote.ts';
import { test as base } from './real_run.ts';
import { addressOf, kDist, kPrograms, kPython } from './support.ts';

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

/** All entries send something in this step, and in step 15; most of them in no other. */
export const kFull = 30;
export const kFullBefore = 15;

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
  lens: 10,
  entropy: 11,
  contribution: 12,
  updates: 13,
  topTokens: 14,
  largest: 15,
  activation: 16,
  embeddingStats: 17,
  normStats: 18,
  tokens: 19,
  /** Of the plan of the baseline: projections on the direction `evil`. */
  besides: 4,
} as const;
type EntryName = keyof typeof kEntry;

interface Told {
  readonly facts: { readonly id: string; readonly name: string };
  /** Of the parameters' table. */
  readonly updates: { readonly parameters: string[]; readonly columns: string[] };
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

const kRecorded = fileURLToPath(new URL('recorded', import.meta.url));
const kReader = fileURLToPath(new URL('recorded/expected.py', import.meta.url));

function doubles(text: string): Float64Array {
  const bytes = Uint8Array.from(Buffer.from(text, 'base64'));
  return new Float64Array(bytes.buffer);
}

/** The k of the recorded entries with `topk`. */
export const kBest = 5;
interface Best {
  readonly id: number;
  readonly value: number;
}

/** What the Python client reads of a recording. */
export class Expected {
  private readonly places = new Map<string, Float64Array>();
  readonly facts: Told['facts'];
  readonly updates: Told['updates'];

  constructor(private readonly told: Told) {
    this.facts = told.facts;
    this.updates = told.updates;
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

  /** The steps with records of an entry, ascending. */
  steps(name: EntryName): readonly number[] {
    const own = this.told.records.filter(({ entry }) => entry === kEntry[name]);
    return [...new Set(own.map(({ step }) => step))].sort((a, b) => a - b);
  }

  /** How many entries have records of a layer. */
  entriesAt(layer: number): number {
    const there = this.told.records.filter((record) => record.layer === layer);
    return new Set(there.map(({ entry }) => entry)).size;
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

  /** Of the logits, or of the lens at a layer. */
  best(step: number, token: number, rank: number, lensAt = 0): Best {
    const values = this.values(lensAt === 0 ? 'topk' : 'lens', lensAt, step);
    const at = kBest * token + rank;
    return { value: values[at], id: values[kBest * kTokens + at] };
  }

  /** Log-sum-exp, entropy, loss and id of the true next token, of the logits or of the lens at a layer. */
  softmax(step: number, token: number, lensAt = 0): readonly number[] {
    const values = this.values(lensAt === 0 ? 'topk' : 'lens', lensAt, step);
    const at = kBest * (2 * kTokens + token);
    return [...values.subarray(at, at + 4)];
  }

  entropy(layer: number, step: number, token: number, head: number): number {
    return this.values('entropy', layer, step)[token * kHeads + head];
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

  /** By step, from 1; NaN: the step has no number. */
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
  constructor(
    readonly url: string,
    readonly expected: Expected,
    private readonly remote: Remote,
  ) {}

  get step(): number {
    return this.remote.step;
  }

  /** The address of a view. */
  at(query: string): string {
    return `${this.url}?${query}`;
  }

  async advance(): Promise<void> {
    await this.remote.control('control.step', { count: 1 });
  }

  async seek(step: number): Promise<void> {
    await this.remote.control('replay.seek', { step });
  }
}

/** The unpacked recordings, and what is in them. */
interface Recording {
  readonly folder: string;
  readonly session: Expected;
  readonly baseline: Expected;
}

interface Fixtures {
  /** The step at which the replay stands at first. */
  readonly firstStep: number;
  /** The hub offers the baseline beside the run. */
  readonly compares: boolean;
  readonly recorded: Replay;
  /** What is in the baseline. */
  readonly baseline: Expected;
}

function unpack(folder: string, name: string): Expected {
  const file = fileOf(folder, name);
  writeFileSync(file, gunzipSync(readFileSync(join(kRecorded, `${name}.ttrec.gz`))));
  const options = { encoding: 'utf8', maxBuffer: 64 * 2 ** 20 } as const;
  return new Expected(JSON.parse(execFileSync(kPython, [kReader, file], options)) as Told);
}

function fileOf(folder: string, name: string): string {
  return join(folder, `${name}.ttrec`);
}

export const test = base.extend<Fixtures, { readonly recording: Recording }>({
  firstStep: [kFull, { option: true }],
  compares: [false, { option: true }],
  recording: [
    async ({}, use) => {
      const folder = mkdtempSync(join(tmpdir(), 'tt-recorded-'));
      const [session, baseline] = [unpack(folder, 'session'), unpack(folder, 'baseline')];
      await use({ folder, session, baseline });
      rmSync(folder, { recursive: true });
    },
    { scope: 'worker' },
  ],
  baseline: async ({ recording }, use) => use(recording.baseline),
  recorded: async ({ recording, firstStep, compares }, use) => {
    const { folder, session } = recording;
    const shown = ['replay', fileOf(folder, 'session'), '--paused', '--page-dir', kDist];
    const beside = compares ? ['--compare', fileOf(folder, 'baseline')] : [];
    const line = [...shown, ...beside, '--port', '0', '--auth', 'none'];
    const replay = spawn(join(kPrograms, 'tensor-tracer'), line);
    try {
      const url = await addressOf(replay);
      const remote = await Remote.connect(url);
      const run = new Replay(url, session, remote);
      await run.seek(firstStep);
      expect(run.step).toBe(firstStep);
      await use(run);
      remote.close();
    } finally {
      replay.kill('SIGTERM');
    }
  },
});
