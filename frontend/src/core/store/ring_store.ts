import type { TensorRecord } from '../../protocol/record';
import { type Form, formOf } from './compressors';

/** The layers of one entry at one step, all under one plan. */
export interface StepGroup {
  readonly step: number;
  readonly plan: number;
  /** It did not arrive by itself: the page asked the hub's history for it. */
  readonly fetched: boolean;
  /** Rises whenever a record comes or goes. */
  readonly version: number;
  /** The records of a layer, one of each micro-batch, in their order. */
  readonly layers: ReadonlyMap<number, readonly TensorRecord[]>;
}

interface MutableGroup {
  readonly step: number;
  plan: number;
  fetched: boolean;
  version: number;
  readonly layers: Map<number, TensorRecord[]>;
}

/**
 * What a view asks for. `entry` is a wish: under another plan than `plan` the same numbers may have
 * come from another entry. The passes over prompts have no phase.
 */
export interface SeriesQuery {
  readonly point: number;
  readonly entry: number;
  readonly plan: number;
  readonly phase: number;
  readonly direction: number;
  readonly promptSet: number;
  readonly form: Form;
}

interface Series {
  /** Everything of the query but entry and plan. */
  readonly kind: string;
  readonly entry: number;
  readonly dataRank: number;
  readonly groups: Map<number, MutableGroup>;
}

/** A place in the order of arrival. Null: its record is forgotten or replaced. */
interface Slot {
  readonly series: Series;
  readonly step: number;
  record: TensorRecord | null;
}

// What a record costs beyond its payload, roughly, in a JavaScript heap.
const kOverheadBytes = 512;
// So many slots may be empty before the queue is packed.
const kMaxEmpty = 1024;

/**
 * Keeps the newest records in at most `capacity` bytes and forgets the oldest first, in order of
 * arrival. One place per (point, entry, phase, direction, prompt set, form, step, layer,
 * micro-batch).
 */
export class RingStore {
  private readonly series = new Map<string, Series>();
  private readonly slots = new Map<TensorRecord, Slot>();
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
      .reduce((total, group) => total + sizeOf(group), 0);
  }

  insert(record: TensorRecord, fetched = false): void {
    const cost = costOf(record);
    if (cost > this.capacity) return;
    const series = this.seriesOf(record);
    this.put(this.groupOf(series, record, fetched), record);
    this.used += cost;
    const slot = { series, step: record.header.step, record };
    this.slots.set(record, slot);
    this.queue.push(slot);
    while (this.used > this.capacity) this.evict();
    this.pack();
  }

  clear(): void {
    this.series.clear();
    this.slots.clear();
    this.queue = [];
    this.head = 0;
    this.used = 0;
  }

  /** The steps that hold something for this query, ascending. */
  steps(query: SeriesQuery): number[] {
    const steps = new Set<number>();
    for (const series of this.matching(query)) {
      for (const group of series.groups.values()) {
        if (isOf(query, series, group)) steps.add(group.step);
      }
    }
    return [...steps].sort((a, b) => a - b);
  }

  /** What is kept of one step: the wish first. */
  at(query: SeriesQuery, step: number): StepGroup | undefined {
    return this.allAt(query, step)[0];
  }

  /** What is kept of each of the steps, the wish of each; what is not kept is left out. */
  atEach(query: SeriesQuery, steps: readonly number[]): readonly StepGroup[] {
    const matching = this.matching(query);
    return steps.flatMap((step) => groupsAt(matching, query, step)[0] ?? []);
  }

  /** Everything of one step that fits the query, the wish first. */
  allAt(query: SeriesQuery, step: number): readonly StepGroup[] {
    return groupsAt(this.matching(query), query, step);
  }

  /**
   * The newest step worth showing: of the last eight, the one with most records (a forward pass
   * arrives layer by layer, and a slow viewer misses some), and of these the newest.
   */
  newest(query: SeriesQuery, steps: readonly number[] = this.steps(query)): StepGroup | undefined {
    let best: StepGroup | undefined;
    for (const step of steps.slice(-8).reverse()) {
      const group = this.at(query, step);
      if (group === undefined) continue;
      if (best !== undefined && group.plan !== best.plan) break;
      if (best === undefined || sizeOf(group) > sizeOf(best)) best = group;
    }
    return best;
  }

  private matching(query: SeriesQuery): readonly Series[] {
    const wanted = kindOf(query);
    const isWish = (series: Series): boolean =>
      series.entry === query.entry && series.dataRank === 0;
    return [...this.series.values()]
      .filter(({ kind }) => kind === wanted)
      .sort((a, b) => Number(isWish(b)) - Number(isWish(a)) || a.dataRank - b.dataRank);
  }

  private seriesOf(record: TensorRecord): Series {
    const { point, entry, phase, direction, dataRank, promptSet, compressor } = record.header;
    const kind = kindOf({ point, phase, direction, promptSet, form: formOf(compressor) });
    const key = `${kind}/${entry}/${dataRank}`;
    let series = this.series.get(key);
    if (series === undefined) {
      series = { kind, entry, dataRank, groups: new Map() };
      this.series.set(key, series);
    }
    return series;
  }

  /** The group of the record's step; what another plan left there is forgotten. */
  private groupOf(series: Series, { header }: TensorRecord, fetched: boolean): MutableGroup {
    let group = series.groups.get(header.step);
    if (group === undefined) {
      group = { step: header.step, plan: header.plan, fetched, version: 0, layers: new Map() };
      series.groups.set(header.step, group);
    } else if (group.plan !== header.plan) {
      for (const old of [...group.layers.values()].flat()) this.release(old);
      group.layers.clear();
      group.plan = header.plan;
      group.fetched = fetched;
    }
    return group;
  }

  private put(group: MutableGroup, record: TensorRecord): void {
    const { layer, microBatch } = record.header;
    const parts = group.layers.get(layer) ?? [];
    const old = parts.findIndex((part) => part.header.microBatch === microBatch);
    if (old >= 0) this.release(parts.splice(old, 1)[0]);
    parts.push(record);
    parts.sort((a, b) => a.header.microBatch - b.header.microBatch);
    group.layers.set(layer, parts);
    group.version += 1;
  }

  private evict(): void {
    const { series, step, record } = this.queue[this.head++];
    if (record === null) return;
    this.release(record);
    const group = series.groups.get(step);
    const parts = group?.layers.get(record.header.layer);
    if (group === undefined || parts === undefined) return;
    parts.splice(parts.indexOf(record), 1);
    group.version += 1;
    if (parts.length === 0) group.layers.delete(record.header.layer);
    if (group.layers.size === 0) series.groups.delete(step);
  }

  /** A record that is held no more: nothing may point to its payload. */
  private release(record: TensorRecord): void {
    this.used -= costOf(record);
    const slot = this.slots.get(record);
    if (slot !== undefined) slot.record = null;
    this.slots.delete(record);
  }

  private pack(): void {
    const { size } = this.slots;
    if (this.queue.length <= Math.max(kMaxEmpty, size) + size) return;
    this.queue = this.queue.filter(({ record }) => record !== null);
    this.head = 0;
  }
}

function kindOf(query: Omit<SeriesQuery, 'plan' | 'entry'>): string {
  const { point, direction, promptSet, form } = query;
  const phase = promptSet > 0 ? 0 : query.phase;
  return [point, phase, direction, promptSet, form].join('/');
}

function groupsAt(
  matching: readonly Series[],
  query: SeriesQuery,
  step: number,
): readonly StepGroup[] {
  const groups: StepGroup[] = [];
  for (const series of matching) {
    const group = series.groups.get(step);
    if (group !== undefined && isOf(query, series, group)) groups.push(group);
  }
  return groups;
}

/** Under one plan an entry stands for itself alone. */
function isOf(query: SeriesQuery, series: Series, group: MutableGroup): boolean {
  return series.entry === query.entry || group.plan !== query.plan;
}

function sizeOf(group: StepGroup): number {
  let size = 0;
  for (const parts of group.layers.values()) size += parts.length;
  return size;
}

function costOf(record: TensorRecord): number {
  return record.payload.byteLength + kOverheadBytes;
}
