import type { TensorRecord } from '../protocol/record';

/** The layers of one point at one step, all under one plan. */
export interface StepGroup {
  readonly step: number;
  readonly plan: number;
  readonly records: ReadonlyMap<number, TensorRecord>;
}

interface MutableGroup {
  readonly step: number;
  plan: number;
  readonly records: Map<number, TensorRecord>;
}

/** What a view asks for; `entry` is a wish, any entry of the point is better than nothing. */
export interface SeriesQuery {
  readonly point: number;
  readonly entry: number;
  readonly phase: number;
  readonly direction: number;
}

interface Series {
  readonly query: SeriesQuery;
  readonly dataRank: number;
  readonly promptSet: number;
  readonly groups: Map<number, MutableGroup>;
}

interface Slot {
  readonly series: Series;
  readonly step: number;
  readonly layer: number;
  readonly record: TensorRecord;
}

// What a record costs beyond its payload, roughly, in a JavaScript heap.
const kOverheadBytes = 512;

/**
 * Keeps the newest records in at most `capacity` bytes and forgets the oldest first, in order of
 * arrival. One place per (point, entry, phase, direction, step, layer).
 */
export class RingStore {
  private readonly series = new Map<string, Series>();
  private queue: Slot[] = [];
  private head = 0;
  private used = 0;

  constructor(readonly capacity: number) {}

  get bytes(): number {
    return this.used;
  }

  get records(): number {
    return [...this.series.values()]
      .flatMap((series) => [...series.groups.values()])
      .reduce((total, group) => total + group.records.size, 0);
  }

  insert(record: TensorRecord): void {
    const cost = costOf(record);
    if (cost > this.capacity) return;
    const { step, layer, plan } = record.header;
    const series = this.seriesOf(record);
    let group = series.groups.get(step);
    if (group !== undefined && group.plan !== plan) {
      for (const old of group.records.values()) this.used -= costOf(old);
      group.records.clear();
      group.plan = plan;
    }
    if (group === undefined) {
      group = { step, plan, records: new Map() };
      series.groups.set(step, group);
    }
    const replaced = group.records.get(layer);
    if (replaced !== undefined) this.used -= costOf(replaced);
    group.records.set(layer, record);
    this.used += cost;
    this.queue.push({ series, step, layer, record });
    while (this.used > this.capacity) this.evict();
  }

  clear(): void {
    this.series.clear();
    this.queue = [];
    this.head = 0;
    this.used = 0;
  }

  /** The steps that hold something for this query, ascending. */
  steps(query: SeriesQuery): number[] {
    const steps = new Set<number>();
    for (const series of this.matching(query)) {
      for (const step of series.groups.keys()) steps.add(step);
    }
    return [...steps].sort((a, b) => a - b);
  }

  /** What is kept of one step. */
  at(query: SeriesQuery, step: number): StepGroup | undefined {
    for (const series of this.matching(query)) {
      const group = series.groups.get(step);
      if (group !== undefined) return group;
    }
    return undefined;
  }

  /**
   * The newest step worth showing: of the last eight, the one with most layers (a forward pass
   * arrives layer by layer, and a slow viewer misses some), and of these the newest.
   */
  newest(query: SeriesQuery, steps: readonly number[] = this.steps(query)): StepGroup | undefined {
    let best: StepGroup | undefined;
    for (const step of steps.slice(-8).reverse()) {
      const group = this.at(query, step);
      if (group === undefined) continue;
      if (best !== undefined && group.plan !== best.plan) break;
      if (best === undefined || group.records.size > best.records.size) best = group;
    }
    return best;
  }

  private *matching(query: SeriesQuery): Generator<Series> {
    const others: Series[] = [];
    for (const series of this.series.values()) {
      const is = series.query;
      if (is.point !== query.point || is.phase !== query.phase) continue;
      if (is.direction !== query.direction || series.promptSet !== 0) continue;
      if (is.entry === query.entry && series.dataRank === 0) yield series;
      else others.push(series);
    }
    yield* others.sort((a, b) => a.dataRank - b.dataRank);
  }

  private seriesOf(record: TensorRecord): Series {
    const { point, entry, phase, direction, dataRank, promptSet } = record.header;
    const key = [point, entry, phase, direction, dataRank, promptSet].join('/');
    let series = this.series.get(key);
    if (series === undefined) {
      const query = { point, entry, phase, direction };
      series = { query, dataRank, promptSet, groups: new Map() };
      this.series.set(key, series);
    }
    return series;
  }

  private evict(): void {
    const slot = this.queue[this.head++];
    const group = slot.series.groups.get(slot.step);
    if (group?.records.get(slot.layer) === slot.record) {
      group.records.delete(slot.layer);
      if (group.records.size === 0) slot.series.groups.delete(slot.step);
      this.used -= costOf(slot.record);
    }
    if (this.head > 1024 && this.head * 2 > this.queue.length) {
      this.queue = this.queue.slice(this.head);
      this.head = 0;
    }
  }
}

function costOf(record: TensorRecord): number {
  return record.payload.byteLength + kOverheadBytes;
}
