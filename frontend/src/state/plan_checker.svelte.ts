import { SchemaError } from '../base/schema';
import {
  type Answer,
  type HubError,
  planCheckSchema,
  type PlanEntry,
  type PlanEstimate,
} from '../protocol/messages';
import type { WorkerLink } from '../worker/worker_link';

const kDelayMs = 250;
/** The draft is wrong; every other refusal says nothing about it. */
const kAboutThePlan = ['invalid_argument', 'invalid_expression', 'too_large'];

export type EntryEstimate = PlanEstimate['entries'][number];

/**
 * Asks the trainer what it thinks of a draft while it is typed: the bytes that it would send, or
 * what is wrong. A hub that does not know the question is not asked again.
 */
export class PlanChecker {
  error = $state.raw<HubError | null>(null);
  /** Bytes per step of the last draft that was answered. */
  bytesPerStep = $state.raw<number | null>(null);
  /** The answer is to the draft as it stands. */
  fresh = $state(false);

  /** By the entry's JSON. */
  private estimates = $state.raw<Readonly<Record<string, EntryEstimate>>>({});
  private known = true;
  private asked = '';
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly link: Pick<WorkerLink, 'request'>) {}

  /** Drops what was asked before, and asks for this draft once it stands still; null for none. */
  check(entries: readonly PlanEntry[] | null): void {
    const text = entries === null ? '' : JSON.stringify(entries);
    if (text === this.asked) return;
    clearTimeout(this.timer);
    this.asked = text;
    this.error = null;
    this.fresh = false;
    if (entries === null || !this.known) return;
    this.timer = setTimeout(() => void this.ask(entries, text), kDelayMs);
  }

  /** Another hub, or the same one again: it may know more, and the run may be another. */
  restart(): void {
    clearTimeout(this.timer);
    this.asked = '';
    this.known = true;
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.asked = '';
  }

  /** Of an entry as it was last answered; null before that. */
  estimateOf(entry: PlanEntry): EntryEstimate | null {
    return this.estimates[JSON.stringify(entry)] ?? null;
  }

  private async ask(entries: readonly PlanEntry[], text: string): Promise<void> {
    const answer = await this.link.request('plan.check', { plan: { entries } });
    if (text === this.asked) this.take(entries, answer);
  }

  private take(entries: readonly PlanEntry[], answer: Answer): void {
    const estimate = estimateIn(answer);
    if (estimate !== null) {
      const pairs = entries.map((entry, index): [string, EntryEstimate] => [
        JSON.stringify(entry),
        estimate.entries[index] ?? { bytes: Number.NaN, records: Number.NaN },
      ]);
      this.estimates = Object.fromEntries(pairs);
      this.bytesPerStep = estimate.bytes_per_step;
      this.fresh = true;
      return;
    }
    this.estimates = {};
    this.bytesPerStep = null;
    if (answer.ok) return;
    if (answer.error.code === 'unknown_method') this.known = false;
    else if (kAboutThePlan.includes(answer.error.code)) this.error = answer.error;
  }
}

function estimateIn(answer: Answer): PlanEstimate | null {
  if (!answer.ok) return null;
  try {
    return planCheckSchema(answer.result, 'result');
  } catch (error) {
    if (error instanceof SchemaError) return null;
    throw error;
  }
}
