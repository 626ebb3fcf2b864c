import type { TensorRecord } from '../../protocol/record';
import type { View, ViewQuery } from '../store/frames';
import { RingStore } from '../store/ring_store';
import { buildView } from '../store/view';
import { CurvePast } from './curve_past';
import type { HistoryClient } from './history_client';
import { Scrubber } from './scrubber';

interface OtherRun {
  readonly store: RingStore;
  readonly scrubber: Scrubber;
  readonly past: CurvePast;
}

export interface OtherRunsListener {
  onFetched(records: number, bytes: number): void;
  /** A view of another run may have changed. */
  onChanged(): void;
  onProblem(message: string): void;
}

/** The runs of A and of B. */
const kMaxRuns = 2;
const kRunBytes = 32 * 2 ** 20;
/** Earlier plans of another run are not known: its curves have the records of its last plan. */
const kNoPlans = { stretchesOf: () => [] };

/**
 * The recordings that the hub offers in addition to its own run. Each has its own store, so that their
 * records never mix. The stores of the least recently shown recordings are dropped.
 */
export class OtherRuns {
  private readonly runs = new Map<string, OtherRun>();

  constructor(
    private readonly client: HistoryClient,
    private readonly listener: OtherRunsListener,
    private readonly now: () => number,
  ) {}

  /**
   * Builds the view of the query from the records fetched so far, and requests the missing records: of
   * the query's step, and of a summary over the steps also those of the steps before.
   */
  build(query: ViewQuery): View {
    const run = this.of(query.run);
    if (query.layout === 'over') run.past.look(query);
    return buildView(run.store, query, run.scrubber.look(query));
  }

  /** Resolves when all requested past records have arrived or are known to be missing. */
  async settled(): Promise<void> {
    await Promise.all([...this.runs.values()].map(({ past }) => past.settled()));
  }

  private of(id: string): OtherRun {
    const run = this.runs.get(id) ?? this.make(id);
    this.runs.delete(id);
    this.runs.set(id, run);
    for (const oldest of this.runs.keys()) {
      if (this.runs.size <= kMaxRuns) break;
      this.runs.delete(oldest);
    }
    return run;
  }

  private make(id: string): OtherRun {
    const store = new RingStore(kRunBytes);
    const listener = {
      onFetched: (records: readonly TensorRecord[], bytes: number): void => {
        const own = records.filter(({ header }) => header.run === id);
        for (const record of own) store.insert(record, true);
        if (own.length < records.length) {
          this.listener.onProblem(`history: records of another run than ${id}`);
        }
        this.listener.onFetched(records.length, bytes);
      },
      onSettled: (): void => this.listener.onChanged(),
      onProblem: (problem: string): void => this.listener.onProblem(problem),
    };
    const scrubber = new Scrubber(this.client, store, listener, this.now);
    scrubber.ofRun(id);
    const past = new CurvePast(this.client, store, kNoPlans, listener);
    past.ofRun(id);
    past.plansKnown();
    return { store, scrubber, past };
  }
}
