import {
  type HubError,
  planCheckSchema,
  type PlanEntry,
  type PlanEstimate,
} from '../../protocol/messages';
import type { WorkerLink } from '../../core/worker/worker_link';
import { LiveCheck } from '../../core/session/live_check.svelte';

export type EntryEstimate = PlanEstimate['entries'][number];

interface Question {
  readonly plan: { readonly entries: readonly PlanEntry[] };
}

const kUnknown: EntryEstimate = { bytes: Number.NaN, records: Number.NaN, flops: Number.NaN };

/** What the trainer thinks of a draft of the plan: the bytes that it would send, or what is wrong. */
export class PlanChecker {
  private readonly live: LiveCheck<Question, PlanEstimate>;

  /** Bytes per step of the last draft that was answered. */
  readonly bytesPerStep = $derived.by(() => this.live.answered?.result.bytes_per_step ?? null);
  /** Operations per step for values that are computed for that draft alone. */
  readonly flopsPerStep = $derived.by(() => this.live.answered?.result.flops_per_step ?? null);
  /** By the entry's JSON. */
  private readonly estimates = $derived.by((): Readonly<Record<string, EntryEstimate>> => {
    const { answered } = this.live;
    const pairs = (answered?.asked.plan.entries ?? []).map(
      (entry, index): [string, EntryEstimate] => [
        JSON.stringify(entry),
        answered?.result.entries[index] ?? kUnknown,
      ],
    );
    return Object.fromEntries(pairs);
  });

  constructor(link: Pick<WorkerLink, 'request'>) {
    this.live = new LiveCheck(link, 'plan.check', planCheckSchema);
  }

  get error(): HubError | null {
    return this.live.error;
  }

  /** Why the draft could not be judged. */
  get hindrance(): HubError | null {
    return this.live.hindrance;
  }

  /** The answer is to the draft as it stands. */
  get fresh(): boolean {
    return this.live.fresh;
  }

  /** Asks for this draft once it stands still; null for none. */
  check(entries: readonly PlanEntry[] | null): void {
    this.live.check(entries === null ? null : { plan: { entries } });
  }

  restart(): void {
    this.live.restart();
  }

  dispose(): void {
    this.live.dispose();
  }

  /** Of an entry as it was last answered; null before that. */
  estimateOf(entry: PlanEntry): EntryEstimate | null {
    return this.estimates[JSON.stringify(entry)] ?? null;
  }
}
