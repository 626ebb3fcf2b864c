import { type Parser, SchemaError } from '../../base/schema';
import type { Answer, HubError } from '../../protocol/messages';
import type { WorkerLink } from '../worker/worker_link';

const kDelayMs = 250;
const kAgainMs = 5000;
/** The draft is wrong; every other refusal says nothing about it. */
const kAboutTheDraft = ['invalid_argument', 'invalid_expression', 'invalid_graph', 'too_large'];
/** The same question may be answered a little later. */
const kPassing = ['no_trainer', 'busy', 'timeout', 'rate_limited'];

/**
 * Asks the trainer what it thinks of a draft while it is typed, once it stands still. A hub that
 * does not know the question is not asked again.
 */
export class LiveCheck<P, T> {
  /** What is wrong with the draft. */
  error = $state.raw<HubError | null>(null);
  /** The last draft that was answered and good, and what was said of it. */
  answered = $state.raw<{ readonly asked: P; readonly result: T } | null>(null);
  /** Why the draft could not be judged. */
  hindrance = $state.raw<HubError | null>(null);
  /** The answer is to the draft as it stands. */
  fresh = $state(false);

  private known = true;
  private asked = '';
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly link: Pick<WorkerLink, 'request'>,
    private readonly method: string,
    private readonly schema: Parser<T>,
  ) {}

  /** Drops what was asked before, and asks for this draft once it stands still; null for none. */
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

  /** Another hub, or the same one again: it may know more, and the run may be another. */
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
