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

/** The trainer's check of a draft of the plan: the bytes that the draft would send, or its error. */
export class PlanChecker {
  private readonly live: LiveCheck<Question, PlanEstimate>;

  /** The bytes per step of the last draft without an error. */
  readonly bytesPerStep = $derived.by(() => this.live.answered?.result.bytes_per_step ?? null);
  /** The operations per step for values that are computed only for this draft. */
  readonly flopsPerStep = $derived.by(() => this.live.answered?.result.flops_per_step ?? null);
  /** The keys are the entries as JSON. */
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

  /** The reason why the draft could not be checked. */
  get hindrance(): HubError | null {
    return this.live.hindrance;
  }

  /** The last answer is about the current draft. */
  get fresh(): boolean {
    return this.live.fresh;
  }

  /** Checks this draft when it stops changing; null if there is no draft. */
  check(entries: readonly PlanEntry[] | null): void {
    this.live.check(entries === null ? null : { plan: { entries } });
  }

  restart(): void {
    this.live.restart();
  }

  dispose(): void {
    this.live.dispose();
  }

  /** The last estimate of an entry; null before the first answer. */
  estimateOf(entry: PlanEntry): EntryEstimate | null {
    return this.estimates[JSON.stringify(entry)] ?? null;
  }
}
