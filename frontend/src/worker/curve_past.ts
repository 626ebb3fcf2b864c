import type { TensorRecord } from '../protocol/record';
import type { ViewQuery } from '../store/frames';
import type { RingStore } from '../store/ring_store';
import { spacingOf } from '../store/spacing';
import { seriesOf } from '../store/view';
import type { HistoryClient, RecordsQuery } from './history_client';

export interface CurvePastListener {
  onFetched(records: readonly TensorRecord[], bytes: number): void;
  onProblem(message: string): void;
}

const kPageBytes = 4 * 2 ** 20;
const kMostBytes = 4 * kPageBytes;

/**
 * Fetches from the hub's history what a curve over the steps shows of before the page came: from the
 * oldest step that the store holds backwards, once for each series, as much as kMostBytes hold.
 */
export class CurvePast {
  private readonly begun = new Set<string>();
  private readonly fetching = new Set<Promise<void>>();
  private run = '';

  constructor(
    private readonly client: Pick<HistoryClient, 'records'>,
    private readonly store: RingStore,
    private readonly listener: CurvePastListener,
  ) {}

  ofRun(run: string): void {
    this.run = run;
    this.begun.clear();
  }

  /** A view of the query is about to be shown. */
  look(query: ViewQuery): void {
    if (this.run === '' || !isCurve(query)) return;
    const oldest = this.store.steps(seriesOf(query)).at(0);
    const key = JSON.stringify([seriesOf(query), query.layerRanges]);
    if (oldest === undefined || this.begun.has(key)) return;
    this.begun.add(key);
    const fetching = this.fetch(query, oldest)
      .catch((error: unknown) => this.listener.onProblem(`history: ${String(error)}`))
      .finally(() => this.fetching.delete(fetching));
    this.fetching.add(fetching);
  }

  /** Everything that was looked for is here, or nobody keeps it. */
  async settled(): Promise<void> {
    await Promise.all(this.fetching);
  }

  private async fetch(query: ViewQuery, oldest: number): Promise<void> {
    const { run } = this;
    const atOnce = Math.max(1, Math.floor(kPageBytes / this.bytesOfStep(query, oldest)));
    const stretch = atOnce * spacingOf(this.store.steps(seriesOf(query)), query.every);
    let fetched = 0;
    const { pointName: point, layerRanges: layers, entry } = query;
    for (let last = oldest - 1; last >= 1 && fetched < kMostBytes; last -= stretch) {
      const steps = { run, first: Math.max(1, last - stretch + 1), last, limit: kPageBytes };
      // The tokens first: a step that is here is not asked for again when somebody moves to it.
      await this.fetchWhole({ ...steps, point: 'InputTokens', layers: null });
      const bytes = await this.fetchWhole({ ...steps, point, layers, entry });
      if (bytes === 0) return;
      fetched += bytes;
    }
  }

  /** The bytes that came: all, or kMostBytes and what one answer holds beyond them. */
  private async fetchWhole(wanted: RecordsQuery): Promise<number> {
    let bytes = 0;
    let after: string | null | undefined;
    while (after !== null) {
      const answer = await this.client.records({ ...wanted, after });
      if (answer === undefined || wanted.run !== this.run) return 0;
      this.listener.onFetched(answer.records, answer.bytes);
      bytes += answer.bytes;
      after = bytes < kMostBytes ? answer.next : null;
    }
    return bytes;
  }

  private bytesOfStep(query: ViewQuery, step: number): number {
    const layers = this.store.at(seriesOf(query), step)?.layers.values() ?? [];
    const payloads = [...layers].flat().map(({ payload }) => payload.byteLength);
    return payloads.reduce((sum, bytes) => sum + bytes, 1);
  }
}

function isCurve({ form, layout }: ViewQuery): boolean {
  return form === 'stats' || form === 'projection' || layout === 'over';
}
