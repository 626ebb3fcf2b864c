import type { TensorRecord } from '../../protocol/record';
import { kindOfForm } from '../store/compressors';
import type { ViewQuery } from '../store/frames';
import type { RingStore } from '../store/ring_store';
import { oldestWithoutGap, spacingOf } from '../store/spacing';
import { seriesOf } from '../store/view';
import type { HistoryClient, RecordsQuery } from './history_client';

export interface CurvePastListener {
  onFetched(records: readonly TensorRecord[], bytes: number): void;
  onProblem(message: string): void;
}

const kPageBytes = 4 * 2 ** 20;
const kMaxBytes = 4 * kPageBytes;
// Each stretch without records is twice as long as the one before.
const kMaxEmpty = 8;

/**
 * Fetches from the hub's history what a curve over the steps shows of before the page came: from the
 * oldest of the newest steps backwards, once for each series, as much as kMaxBytes hold and the
 * store has room for.
 */
export class CurvePast {
  private readonly begun = new Set<string>();
  private readonly failed = new Set<string>();
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
    this.failed.clear();
  }

  /** A connection began: what could not be fetched is worth another try. */
  begin(): void {
    for (const key of this.failed) this.begun.delete(key);
    this.failed.clear();
  }

  /** A view of the query is about to be shown. */
  look(query: ViewQuery): void {
    const { run } = this;
    if (run === '' || !isCurve(query)) return;
    const steps = this.store.steps(seriesOf(query));
    const oldest = oldestWithoutGap(steps, spacingOf(steps, query.every));
    const key = JSON.stringify([seriesOf(query), query.layerRanges, query.every]);
    if (oldest === undefined || this.begun.has(key)) return;
    this.begun.add(key);
    const fetching = this.attempt(query, oldest)
      .then((isDone) => {
        if (!isDone && run === this.run) this.failed.add(key);
      })
      .finally(() => this.fetching.delete(fetching));
    this.fetching.add(fetching);
  }

  /** Everything that was looked for is here, or nobody keeps it. */
  async settled(): Promise<void> {
    await Promise.all(this.fetching);
  }

  /** False: a request failed. */
  private async attempt(query: ViewQuery, oldest: number): Promise<boolean> {
    try {
      return await this.fetch(query, oldest);
    } catch (error) {
      this.listener.onProblem(`history: ${String(error)}`);
      return false;
    }
  }

  private async fetch(query: ViewQuery, oldest: number): Promise<boolean> {
    const atOnce = Math.max(1, Math.floor(kPageBytes / this.bytesOfStep(query, oldest)));
    let stretch = atOnce * spacingOf(this.store.steps(seriesOf(query)), query.every);
    let left = kMaxBytes;
    let empty = 0;
    let last = oldest - 1;
    while (last >= 1 && left > 0 && empty <= kMaxEmpty && this.hasRoom()) {
      const first = Math.max(1, last - stretch + 1);
      const came = await this.fetchStretch(query, first, last, left);
      if (came === undefined) return false;
      left -= came.bytes;
      last = first - 1;
      empty = came.isEmpty ? empty + 1 : 0;
      if (came.isEmpty) stretch *= 2;
    }
    return true;
  }

  private async fetchStretch(
    query: ViewQuery,
    first: number,
    last: number,
    most: number,
  ): Promise<{ bytes: number; isEmpty: boolean } | undefined> {
    const { pointName: point, layerRanges: layers, entry } = query;
    const steps = { run: this.run, first, last, limit: kPageBytes };
    // The tokens first: a step that is here is not asked for again when somebody moves to it.
    const tokens =
      kindOfForm(query.form)?.isByToken === true
        ? await this.fetchWhole({ ...steps, point: 'InputTokens', layers: null }, most)
        : 0;
    if (tokens === undefined) return undefined;
    const bytes = await this.fetchWhole({ ...steps, point, layers, entry }, most - tokens);
    return bytes === undefined ? undefined : { bytes: tokens + bytes, isEmpty: bytes === 0 };
  }

  /**
   * The bytes that came: all, or `most` and what one answer holds beyond them. Undefined: the hub
   * did not answer, or it has another run by now.
   */
  private async fetchWhole(wanted: RecordsQuery, most: number): Promise<number | undefined> {
    let bytes = 0;
    let after: string | null | undefined;
    while (after !== null) {
      const answer = await this.client.records({ ...wanted, after });
      if (answer === undefined || wanted.run !== this.run) return undefined;
      this.listener.onFetched(answer.records, answer.bytes);
      bytes += answer.bytes;
      after = bytes < most && this.hasRoom() ? answer.next : null;
    }
    return bytes;
  }

  /** For another answer: what is here already must not make way for it. */
  private hasRoom(): boolean {
    return this.store.bytes + kPageBytes <= this.store.capacity;
  }

  private bytesOfStep(query: ViewQuery, step: number): number {
    const layers = this.store.at(seriesOf(query), step)?.layers.values() ?? [];
    const payloads = [...layers].flat().map(({ payload }) => payload.byteLength);
    return payloads.reduce((sum, bytes) => sum + bytes, 1);
  }
}

function isCurve({ form, layout }: ViewQuery): boolean {
  return kindOfForm(form)?.hasCurves === true || layout === 'over';
}
