import { type Parser, SchemaError } from '../../base/schema';
import type { Answer, HubError } from '../../protocol/messages';
import type { WorkerLink } from '../worker/worker_link';

const kDelayMs = 250;
const kAgainMs = 5000;
/** The error codes of a wrong draft. All other codes do not mean that the draft is wrong. */
const kAboutTheDraft = ['invalid_argument', 'invalid_expression', 'invalid_graph', 'too_large'];
/** The error codes after which the same request may succeed a little later. */
const kPassing = ['no_trainer', 'busy', 'timeout', 'rate_limited'];

/**
 * Lets the trainer check a draft while the user types: each time the user pauses, it sends the draft.
 * If the hub does not know the method, it does not ask this hub again.
 */
export class LiveCheck<P, T> {
  /** The error in the draft. */
  error = $state.raw<HubError | null>(null);
  /** The last draft that was checked and correct, and the answer to it. */
  answered = $state.raw<{ readonly asked: P; readonly result: T } | null>(null);
  /** The reason why the draft could not be checked. */
  hindrance = $state.raw<HubError | null>(null);
  /** The answer is for the current draft. */
  fresh = $state(false);

  private known = true;
  private asked = '';
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly link: Pick<WorkerLink, 'request'>,
    private readonly method: string,
    private readonly schema: Parser<T>,
  ) {}

  /** Drops the earlier request, and checks this draft when the user pauses; null means no draft. */
  check(params: P | null): void {
    const text = params === null ? '' : JSON.stringify(params);
    if (text === this.asked) return;
    clearTimeout(this.timer);
    this.asked = text;
    this.error = null;
    this.fresh = false;
    if (!this.known) return;
    if (params === null) this.hindrance = null;
    else this.askIn(kDelayMs, params, text);
  }

  /** Starts again after a new connection: the hub may know the method, and the run may differ. */
  restart(): void {
    clearTimeout(this.timer);
    this.asked = '';
    this.known = true;
    this.error = null;
    this.hindrance = null;
    this.fresh = false;
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.asked = '';
  }

  private askIn(delayMs: number, params: P, text: string): void {
    this.timer = setTimeout(() => void this.ask(params, text), delayMs);
  }

  private async ask(params: P, text: string): Promise<void> {
    const answer = await this.link.request(this.method, params);
    if (text !== this.asked) return;
    const result = this.resultIn(answer);
    this.answered = result === null ? null : { asked: params, result };
    this.fresh = result !== null;
    this.hindrance = null;
    if (answer.ok) return;
    if (answer.error.code === 'unknown_method') this.known = false;
    if (kAboutTheDraft.includes(answer.error.code)) this.error = answer.error;
    else this.hindrance = answer.error;
    if (kPassing.includes(answer.error.code)) this.askIn(kAgainMs, params, text);
  }

  private resultIn(answer: Answer): T | null {
    if (!answer.ok) return null;
    try {
      return this.schema(answer.result, 'result');
    } catch (error) {
      if (error instanceof SchemaError) return null;
      throw error;
    }
  }
}
