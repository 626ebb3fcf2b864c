import {
  type Answer,
  boundarySchema,
  claimSchema,
  type Control,
  type HubError,
  type Plan,
  planAnswerSchema,
  type PlanEntry,
} from '../../protocol/messages';
import { type Parser, SchemaError, unknown } from '../../base/schema';
import type { WorkerLink } from '../worker/worker_link';
import { LatestSender } from './latest_sender';
import { readStored, writeStored } from './preferences';

const kNameKey = 'tensor-tracer.name';
const kHeldKey = 'tensor-tracer.held';

// The hub accepts 100 messages per second from a viewer.
const kSeekPauseMs = 50;

const kViewOnly: HubError = {
  code: 'not_allowed',
  message: 'this token allows only viewing',
  where: undefined,
  remedy: "open the page with the run's token to control it",
};

export type Outcome<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: HubError };

export interface PlanOutcome {
  readonly number: number;
  readonly step: number;
  readonly ranks: number;
  /** The plan in force, in which the trainer has filled in all defaults. */
  readonly plan: Plan;
}

/**
 * The lease and the requests that only the controller may send. Every action claims a free lease
 * automatically. If another viewer holds the lease, the user must take it over.
 */
export class Controller {
  session = $state('');
  holder = $state.raw<Control['holder']>(null);
  name = $state(readStored(kNameKey) ?? '');
  error = $state.raw<HubError | null>(null);
  notice = $state('');
  /** The token of this page only permits viewing: the hub refuses every claim. */
  viewOnly = $state(false);
  /** The last plan that this page has set. */
  applied = $state.raw<PlanOutcome | null>(null);
  /** The number of ranks of the run; 0 if it is not known. */
  allRanks = $state(0);

  readonly mine = $derived(this.holder !== null && this.holder.session === this.session);
  readonly others = $derived(this.holder !== null && this.holder.session !== this.session);

  /** The methods of the requests that wait for an answer. */
  private asked = $state.raw<readonly string[]>([]);
  /** The session in which this tab holds control; kept while it is not connected or reloads. */
  private held = readStored(kHeldKey, 'sessionStorage') ?? '';
  private heldBefore = false;
  private readonly seeks = new LatestSender(
    (step: number) => this.tell('replay.seek', { step }),
    kSeekPauseMs,
  );

  constructor(private readonly link: WorkerLink) {}

  greeted(session: string, control: Control, mayControl: boolean): void {
    this.session = session;
    this.viewOnly = !mayControl;
    const { holder } = control;
    // After a reload, the page does not claim a lease that has ended in the meantime.
    const back = holder === null ? this.heldBefore : holder.session === this.held;
    this.heldBefore = false;
    this.holder = holder;
    if (back) void this.reclaim();
    else this.keepHeld();
  }

  changed(control: Control): void {
    const { holder } = control;
    this.holder = holder;
    this.keepHeld();
  }

  disconnected(): void {
    if (this.mine) this.heldBefore = true;
    this.holder = null;
    this.session = '';
  }

  /** Whether a request waits for an answer whose method begins with this text. */
  waits(method: string): boolean {
    return this.asked.some((each) => each.startsWith(method));
  }

  rename(name: string): void {
    this.name = name.slice(0, 60);
    writeStored(kNameKey, this.name);
  }

  async claim(takeOver: boolean): Promise<boolean> {
    const name = this.name.trim() === '' ? `viewer ${this.session}` : this.name.trim();
    const params = { name, take_over: takeOver };
    const answer = await this.link.request('control.claim', params);
    const outcome = read(answer, claimSchema);
    if (outcome.ok) {
      this.holder = { session: this.session, name };
      this.keepHeld();
    } else if (outcome.error.code === 'not_allowed') this.viewOnly = true;
    this.error = outcome.ok ? null : outcome.error;
    return outcome.ok;
  }

  async release(): Promise<void> {
    const answer = await this.link.request('control.release', undefined);
    if (answer.ok && this.mine) this.holder = null;
    this.keepHeld();
    this.error = answer.ok ? null : answer.error;
  }

  pause(): Promise<void> {
    return this.boundary('control.pause', {}, (step) => `Paused after step ${step}`);
  }

  resume(): Promise<void> {
    return this.boundary('control.continue', {}, (step) => `Continued after step ${step}`);
  }

  step(count = 1): Promise<void> {
    return this.boundary('control.step', { count }, (step) => `Step ${step} done`);
  }

  /** Starts a run that waits for a viewer: from now on, this page watches it. */
  async start(): Promise<void> {
    const outcome = await this.carryOut('subscribe', {}, unknown);
    this.error = outcome.ok ? null : outcome.error;
  }

  /** Ends the run after the current step, as after its last step. */
  stop(): Promise<void> {
    return this.boundary('control.stop', {}, (step) => `The run ends after step ${step}`);
  }

  /** Saves a checkpoint. The result is the step after which it has the state; undefined if refused. */
  async checkpoint(): Promise<number | undefined> {
    if (this.waits('checkpoint.')) return undefined;
    const outcome = await this.carryOut('checkpoint.save', {}, boundarySchema);
    this.error = outcome.ok ? null : outcome.error;
    return outcome.ok ? outcome.value.step : undefined;
  }

  /** Moves a replay to a step. While a slider moves, only its last position is sent. */
  seek(step: number): Promise<void> {
    return this.seeks.push(step);
  }

  setSpeed(speed: number): Promise<void> {
    return this.tell('replay.speed', { speed });
  }

  /** Sends a request whose effect appears in the run's state, so that its result is not used. */
  private async tell(method: string, params: unknown): Promise<void> {
    const answer = await this.ask(method, params);
    this.error = answer.ok ? null : answer.error;
  }

  /** Sends a plan. The form shows the error, if there is one. */
  async setPlan(plan: { entries: readonly PlanEntry[] }): Promise<Outcome<PlanOutcome>> {
    const outcome = await this.carryOut('plan.set', { plan }, planAnswerSchema);
    if (!outcome.ok) return outcome;
    const { step, ranks, plan: applied } = outcome.value;
    this.applied = { number: applied.number, step, ranks, plan: applied };
    return { ok: true, value: this.applied };
  }

  /** "2/2 ranks": the number of ranks that carried out the request. */
  ranksText(ranks: number): string {
    if (this.allRanks > 0) return `${ranks}/${this.allRanks} ranks`;
    return `${ranks} ${ranks === 1 ? 'rank' : 'ranks'}`;
  }

  /** Claims the lease again that the hub keeps for the earlier session of this tab. */
  private async reclaim(): Promise<void> {
    if (await this.claim(false)) return;
    if (this.error?.code !== 'disconnected') this.keepHeld();
    this.error = null;
  }

  private keepHeld(): void {
    this.held = this.mine ? this.session : '';
    writeStored(kHeldKey, this.held, 'sessionStorage');
  }

  private heldByOther(): HubError {
    return {
      code: 'not_controller',
      message: `${this.holder?.name ?? 'another viewer'} holds control`,
      where: undefined,
      remedy: 'open Control to take over',
    };
  }

  private async boundary(
    method: string,
    params: unknown,
    describe: (step: number) => string,
  ): Promise<void> {
    if (this.waits('control.')) return;
    const outcome = await this.carryOut(method, params, boundarySchema);
    this.error = outcome.ok ? null : outcome.error;
    if (!outcome.ok) return;
    const { step, ranks } = outcome.value;
    // A replay has no ranks.
    this.notice = ranks === 0 ? describe(step) : `${describe(step)} on ${this.ranksText(ranks)}`;
  }

  /** Sends a request as the controller. The caller shows the error. */
  async carryOut<T>(method: string, params: unknown, schema: Parser<T>): Promise<Outcome<T>> {
    return read(await this.ask(method, params), schema);
  }

  /** The same for a slider that moves: the request does not disable other buttons. */
  async adjust<T>(method: string, params: unknown, schema: Parser<T>): Promise<Outcome<T>> {
    return read(await this.askHolding(method, params), schema);
  }

  private async ask(method: string, params: unknown): Promise<Answer> {
    this.asked = [...this.asked, method];
    this.notice = '';
    this.error = null;
    try {
      return await this.askHolding(method, params);
    } finally {
      this.asked = this.asked.toSpliced(this.asked.indexOf(method), 1);
    }
  }

  /**
   * Claims the lease if it is free, and sends the request. If the lease has ended, claims it again and
   * repeats the request once.
   */
  private async askHolding(method: string, params: unknown): Promise<Answer> {
    if (this.viewOnly) return { id: 0, ok: false, error: kViewOnly };
    if (this.others) return { id: 0, ok: false, error: this.heldByOther() };
    if (this.holder === null && !(await this.claim(false)) && this.error !== null) {
      return { id: 0, ok: false, error: this.error };
    }
    const answer = await this.link.request(method, params);
    if (answer.ok || answer.error.code !== 'not_controller' || this.others) return answer;
    if (!(await this.claim(false))) return answer;
    return this.link.request(method, params);
  }
}

function read<T>(answer: Answer, schema: Parser<T>): Outcome<T> {
  if (!answer.ok) return answer;
  try {
    return { ok: true, value: schema(answer.result, 'result') };
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error;
    const message = `the hub's answer cannot be read: ${error.message}`;
    return {
      ok: false,
      error: { code: 'internal', message, where: undefined, remedy: undefined },
    };
  }
}

/** The reason why the page may not send a controller's requests; undefined if it may. */
export function hindranceOf({ viewOnly, others, holder }: Controller): string | undefined {
  if (viewOnly) return 'this token allows only viewing';
  return others ? `${holder?.name ?? 'another'} holds control` : undefined;
}
