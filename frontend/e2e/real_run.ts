import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, type Page, test as base } from '@playwright/test';
import { Remote } from './remote.ts';
import { addressOf, idle, kPrograms, kPython } from './support.ts';

// A test with a real run: two ranks train a small model. The run waits for its start until the page does steps, and is
// then paused. Each test has another run. Its text, vectors, prompts and plan are those of recorded/make_recording.py.

export const kLayers = 4;
export const kHidden = 64;
export const kHeads = 4;
export const kTokens = 32;
export const kMicroBatch = 4;

const kInputs = fileURLToPath(new URL('recorded/make_recording.py', import.meta.url));
const kFlags =
  `--num-layers ${kLayers} --hidden-size ${kHidden} --num-attention-heads ${kHeads} --seq-length ${kTokens} ` +
  `--micro-batch-size ${kMicroBatch} --global-batch-size ${kMicroBatch} --tensor-model-parallel-size 2 --threads 1 ` +
  '--data-path text.txt --run-dir run --run-name demo --train-iters 1000 --tensor-tracer-plan live.json ' +
  '--tensor-tracer-vectors vectors --monitor-prompts probes.txt --monitor-interval 10 --tensor-tracer-port 0 ' +
  '--tensor-tracer-auth none --tensor-tracer-wait --tensor-tracer-pause-timeout 86400 --print-url';

/** With these flags a step takes so long that the page is never behind a run that trains. */
export const kSlow: readonly string[] = ['--global-batch-size', String(16 * kMicroBatch)];

/** With these flags a step takes a few milliseconds, and there may be thousands. */
export const kFast: readonly string[] =
  '--train-iters 3000 --micro-batch-size 1 --global-batch-size 1'.split(' ');

export interface Entry {
  readonly point: string;
  readonly enabled?: boolean;
  readonly layers?: string;
  readonly every?: number;
  readonly compressor?: Readonly<Record<string, unknown>>;
  readonly [member: string]: unknown;
}

/** A line of the audit trail. */
export interface TrailLine {
  readonly step: number;
  readonly kind: string;
  readonly session: string;
  readonly who: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

/** The scalars of a step. */
export interface Scalars {
  readonly step: number;
  readonly loss: number;
  readonly grad_norm: number;
  readonly lr: number;
  readonly step_ms: number;
  readonly valid_loss?: number;
}

interface Plan {
  readonly number: number;
  readonly entries: readonly Entry[];
}

interface RunState {
  readonly phase: string;
  readonly step: number;
}

/** A run that does no step by itself. */
export class RealRun {
  private joined: Remote | undefined;

  constructor(
    readonly url: string,
    /** The run's directory. */
    readonly folder: string,
  ) {}

  /** A viewer that watches the run and can control it. */
  get remote(): Remote {
    if (this.joined === undefined) throw new Error('nobody has joined the run');
    return this.joined;
  }

  /** Joins the run, or joins it again after its hub was started again. */
  async join(): Promise<void> {
    this.joined?.close();
    this.joined = await Remote.connect(this.url, this.token);
  }

  /** The address of a view. */
  at(query: string): string {
    return `${this.url}?${query}`;
  }

  get token(): string {
    return this.read('token');
  }

  /** The address of a view with a token of the run. */
  signIn(query = '', file = 'token'): string {
    return `${this.at(query)}#token=${this.read(file)}`;
  }

  /** A file of the run's directory. */
  read(file: string): string {
    return readFileSync(join(this.folder, file), 'utf8').trim();
  }

  /** The plan in force. */
  get plan(): Plan {
    const { run } = this.remote.hello as { run: { plan: Plan } };
    return (this.remote.told('plan') as { plan: Plan } | undefined)?.plan ?? run.plan;
  }

  /** The programs in force. */
  get programs(): readonly Readonly<Record<string, unknown>>[] {
    const told = this.remote.told('interventions') as
      { programs: Readonly<Record<string, unknown>>[] } | undefined;
    return told?.programs ?? [];
  }

  get state(): RunState {
    return (this.remote.told('state') ?? this.remote.hello.state) as RunState;
  }

  /** The last step. */
  get step(): number {
    return Number(this.remote.told('step')?.step ?? 0);
  }

  /** The name of who holds control; null if nobody does. */
  get holder(): string | null {
    const { holder } = (this.remote.told('control') ?? this.remote.hello.control) as {
      readonly holder: { readonly name: string } | null;
    };
    return holder?.name ?? null;
  }

  /** The step after which the run is paused, once it is. */
  async pausedAfter(): Promise<number> {
    await expect.poll(() => this.state.phase).toBe('paused');
    return this.state.step;
  }

  /** Lets the run do step after step; nobody holds control. */
  async goOn(): Promise<void> {
    await this.remote.control('control.continue');
  }

  /** Lets somebody take control and do steps; then the run is paused. */
  async stepAs(name: string, count = 1): Promise<void> {
    await this.remote.claim(name);
    await this.remote.ask('control.step', { count });
    // The trainer answers before it says that it is paused.
    await expect.poll(() => this.state.phase, { intervals: [10] }).toBe('paused');
  }

  /** Somebody sets a plan, and gives control back. */
  async setPlan(...entries: readonly Entry[]): Promise<void> {
    await this.remote.control('plan.set', { plan: { entries } });
  }

  /** Does many steps that nothing is traced of; the scalars of all. */
  async doSteps(count: number): Promise<readonly Scalars[]> {
    await this.setPlan();
    await this.stepAs('Ada', count);
    return this.scalars();
  }

  private fetch(path: string): Promise<Response> {
    return fetch(`${this.url}${path}`, { headers: { Authorization: `Bearer ${this.token}` } });
  }

  /** What the hub answers from the recording, which it has written half a second later. */
  async history<T>(path: string): Promise<T> {
    return (await (await this.fetch(`history${path}`)).json()) as T;
  }

  /** A number of the hub, of docs/operations.md. */
  async metric(name: string): Promise<number> {
    const lines = (await (await this.fetch('metrics')).text()).split('\n');
    const line = lines.find((each) => each.startsWith(`tensor_tracer_${name} `));
    return Number(line?.split(' ').at(-1));
  }

  /** The scalars of the steps, once the recording has all. */
  async scalars(): Promise<readonly Scalars[]> {
    let all: readonly Scalars[] = [];
    await expect(async () => {
      all = await this.history('/steps?limit=100000');
      expect(all.at(-1)?.step).toBe(this.step);
    }).toPass();
    return all;
  }

  /** What the hub wrote down of a kind: a request that changed something, such as `plan.set`, or a notification. */
  async trail(kind?: string): Promise<readonly TrailLine[]> {
    const lines = await this.history<readonly TrailLine[]>('/events');
    return lines.filter((line) => kind === undefined || line.kind === kind);
  }

  /** The members of the requests of a kind that changed something. */
  async asked(method: string): Promise<readonly Readonly<Record<string, unknown>>[]> {
    return (await this.trail(method)).map(
      ({ detail }) => detail.params as Readonly<Record<string, unknown>>,
    );
  }

  /** What the page asked for that changed something, oldest first. */
  async askedByPage(): Promise<readonly string[]> {
    const { session: own } = this.remote.hello;
    const lines = (await this.trail()).filter(({ session }) => session !== '' && session !== own);
    return lines.map(({ kind }) => kind);
  }
}

interface Fixtures {
  /** More flags of the program. They replace those of the same name. */
  readonly flags: readonly string[];
  readonly run: RealRun;
}

/** The program's flags; the last of a name counts. */
function allFlags(own: readonly string[]): readonly string[] {
  const values = new Map<string, string[]>();
  let name = '';
  for (const word of [...kFlags.split(' '), ...own]) {
    if (word.startsWith('--')) values.set((name = word), []);
    else values.get(name)?.push(word);
  }
  return [...values].flat(2);
}

function start(folder: string, flags: readonly string[]): ChildProcess {
  execFileSync(kPython, [kInputs, '--inputs', folder]);
  const program = join(kPrograms, 'tensor-tracer');
  const line = ['--quiet', '--oversubscribe', '-np', '2', program, 'train', ...allFlags(flags)];
  const allowed = { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' };
  return spawn('mpirun', line, { cwd: folder, env: { ...process.env, ...allowed } });
}

/** Joins the run once it waits for its start. */
async function waiting(run: RealRun): Promise<void> {
  for (;;) {
    await run.join();
    const { state } = run.remote.hello as { readonly state: RunState };
    if (state.phase === 'waiting') return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export const test = base.extend<Fixtures>({
  flags: [[], { option: true }],
  run: async ({ flags }, use) => {
    const folder = mkdtempSync(join(tmpdir(), 'tt-real-'));
    const training = start(folder, flags);
    const ended = once(training, 'exit');
    try {
      const run = new RealRun(await addressOf(training), join(folder, 'run'));
      await waiting(run);
      await use(run);
      run.remote.close();
    } finally {
      training.kill('SIGUSR1');
      await ended;
      // The hub may still end.
      rmSync(folder, { recursive: true, maxRetries: 20 });
    }
  },
});

/** Lets the page, which takes control if it is free, do steps; then the run is paused. */
export async function advance(page: Page, steps = 1): Promise<void> {
  await page.evaluate((count) => window.__tt?.app.control.step(count), steps);
  await idle(page);
}

/** Opens a view of the run and waits until it has what the test needs. */
export async function visit(
  page: Page,
  run: RealRun,
  query: string,
  testid: string,
): Promise<void> {
  await page.goto(run.at(query));
  await page.getByTestId(testid).first().waitFor();
  await idle(page);
}

/** Opens the page, does steps, and waits until it shows the last one. */
export async function openAfter(page: Page, run: RealRun, steps: number): Promise<void> {
  await visit(page, run, '', 'start');
  await advance(page, steps);
  await expect(page.getByTestId('shown-step')).toHaveText(`step ${steps}`);
  await idle(page);
}
