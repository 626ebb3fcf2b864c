import type { TensorRecord } from '../../protocol/record';
import { kindOfForm } from '../store/compressors';
import type { ViewQuery } from '../store/frames';
import type { PlanHistory, Stretch } from '../store/plan_history';
import type { RingStore } from '../store/ring_store';
import { oldestWithoutGap, spacingOf } from '../store/spacing';
import { hasCurves, seriesOf } from '../store/view';
import type { HistoryClient, RecordsQuery } from './history_client';

export interface CurvePastListener {
  onFetched(records: readonly TensorRecord[], bytes: number): void;
  onProblem(message: string): void;
}

const kPageBytes = 4 * 2 ** 20;
const kMaxBytes = 4 * kPageBytes;
// After each stretch without records, the next stretch is twice as long.
const kMaxEmpty = 8;

/**
 * Fetches from the hub's history the part of a curve from before the page was opened. It fetches
 * backwards from the oldest step of the newest steps without a gap, through all plans that contain the
 * series, once for each series. It stops at kMaxBytes, or if the store has no more room.
 */
export class CurvePast {
  private readonly begun = new Set<string>();
  private readonly failed = new Set<string>();
  private readonly fetching = new Set<Promise<void>>();
  private run = '';
  private knowsPlans = false;

  constructor(
    private readonly client: Pick<HistoryClient, 'records'>,
    private readonly store: RingStore,
    private readonly plans: Pick<PlanHistory, 'stretchesOf'>,
    private readonly listener: CurvePastListener,
  ) {}

  ofRun(run: string): void {
    this.run = run;
    this.knowsPlans = false;
    this.begun.clear();
    this.failed.clear();
  }

  /** All plans of the run that the hub has are known. Before this call, no records are fetched. */
  plansKnown(): void {
    this.knowsPlans = true;
  }

  /** A connection began: failed requests are tried again. */
  begin(): void {
    for (const key of this.failed) this.begun.delete(key);
    this.failed.clear();
  }

  /** To be called before a view of the query is built. */
  look(query: ViewQuery): void {
    const { run } = this;
    if (run === '' || !this.knowsPlans || !isCurve(query)) return;
    const series = seriesOf(query);
    const steps = this.store.stepsOfSeries(series);
    const oldest = oldestWithoutGap(steps, spacingOf(steps, query.every));
    const { plan, entry, ...kind } = series;
    const name = this.store.keyOf({ plan, entry });
    const key = JSON.stringify([kind, name, query.layerRanges, query.every]);
    if (oldest === undefined || this.begun.has(key)) return;
    this.begun.add(key);
    const fetching = this.attempt(query, oldest)
      .then((isDone) => {
        if (!isDone && run === this.run) this.failed.add(key);
      })
      .finally(() => this.fetching.delete(fetching));
    this.fetching.add(fetching);
  }

  /** Resolves when all requested records have arrived or are known to be missing. */
  async settled(): Promise<void> {
    await Promise.all(this.fetching);
  }

  /** The result is false if a request failed. */
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
    const steps = this.store.stepsOfSeries(seriesOf(query));
    let size = atOnce * spacingOf(steps, query.every);
    let left = kMaxBytes;
    let empty = 0;
    const stretches = this.stretchesOf(query, oldest - 1);
    while (left > 0 && empty <= kMaxEmpty && this.hasRoom()) {
      const stretch = cutNewest(stretches, size);
      if (stretch === undefined) return true;
      const came = await this.fetchStretch(query, stretch, left);
      if (came === undefined) return false;
      left -= came.bytes;
      empty = came.isEmpty ? empty + 1 : 0;
      if (came.isEmpty) size *= 2;
    }
    return true;
  }

  /** The stretches of the series in the history; one stretch from step 1 on if no plan is known. */
  private stretchesOf(query: ViewQuery, last: number): Stretch[] {
    const known = this.plans.stretchesOf(this.store.keyOf(query), last);
    if (known.length > 0) return [...known];
    return last < 1 ? [] : [{ first: 1, last, entry: query.entry }];
  }

  private async fetchStretch(
    query: ViewQuery,
    { first, last, entry }: Stretch,
    most: number,
  ): Promise<{ bytes: number; isEmpty: boolean } | undefined> {
    const { pointName: point, layerRanges: layers } = query;
    const steps = { run: this.run, first, last, limit: kPageBytes };
    // Tokens come first: if the user moves to a step that is in the store, it is not requested again.
    const tokens =
      kindOfForm(query.form)?.isByToken === true
        ? await this.fetchWhole({ ...steps, point: 'InputTokens', layers: null }, most)
        : 0;
    if (tokens === undefined) return undefined;
    const bytes = await this.fetchWhole({ ...steps, point, layers, entry }, most - tokens);
    return bytes === undefined ? undefined : { bytes: tokens + bytes, isEmpty: bytes === 0 };
  }

  /**
   * The number of fetched bytes: of all records, or `most` and up to one answer more. Undefined if
   * the hub did not answer, or if it now has another run.
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

  /** Whether the store has room for another answer, so that it does not replace older records. */
  private hasRoom(): boolean {
    return this.store.bytes + kPageBytes <= this.store.capacity;
  }

  private bytesOfStep(query: ViewQuery, step: number): number {
    const layers = this.store.at(seriesOf(query), step)?.layers.values() ?? [];
    const payloads = [...layers].flat().map(({ payload }) => payload.byteLength);
    return payloads.reduce((sum, bytes) => sum + bytes, 1);
  }
}

/** Removes the newest steps, at most `size`, from the stretches, and returns them. */
function cutNewest(stretches: Stretch[], size: number): Stretch | undefined {
  const newest = stretches.shift();
  if (newest === undefined) return undefined;
  const first = Math.max(newest.first, newest.last - size + 1);
  if (first > newest.first) stretches.unshift({ ...newest, last: first - 1 });
  return { ...newest, first };
}

function isCurve(query: ViewQuery): boolean {
  const { form, layout, pin } = query;
  if (layout === 'over' || pin !== null) return true;
  return kindOfForm(form)?.hasCurves === true || hasCurves(query);
}
