import type { Plan } from '../../protocol/messages';
import type { TensorRecord } from '../../protocol/record';
import { type Form, formOf } from './compressors';
import { SeriesKeys } from './series_key';

/** The layers of one entry at one step, all under one plan. */
export interface StepGroup {
  readonly step: number;
  readonly plan: number;
  /** The records were requested from the hub's history; they did not arrive live. */
  readonly fetched: boolean;
  /** Increases with each record that is added or removed. */
  readonly version: number;
  /** The records of each layer, one for each micro-batch, in the order of micro-batches. */
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
 * The series that a view wants: that of `entry` in `plan`, also under other plans. If this series has
 * no records at a step of another plan, the records of another entry of the same kind are used. Passes
 * over prompts have no phase.
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
  /** All members of the query except entry and plan. */
  readonly kind: string;
  /** The key of the entries from which the records come, see series_key.ts. */
  readonly key: string;
  readonly dataRank: number;
  readonly groups: Map<number, MutableGroup>;
}

/** A position in the order of arrival. Null: its record was dropped or replaced. */
interface Slot {
  record: TensorRecord | null;
}

// The approximate memory of a record in addition to its payload, in the JavaScript heap.
const kOverheadBytes = 512;
// The number of empty slots that are allowed before the queue is packed.
const kMaxEmpty = 1024;

/**
 * Keeps the newest records in at most `capacity` bytes, and drops the oldest records first, in the
 * order of arrival. It keeps one record for each (point, series key, phase, direction, prompt set,
 * form, step, layer, micro-batch). A series continues through changes of the plan.
 */
export class RingStore {
  private readonly series = new Map<string, Series>();
  private readonly keys = new SeriesKeys();
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
    this.put(this.groupOf(this.seriesOf(record), record, fetched), record);
    this.used += cost;
    const slot = { record };
    this.slots.set(record, slot);
    this.queue.push(slot);
    while (this.used > this.capacity) this.evict();
    this.pack();
  }

  /** Takes the series keys of a plan. Records that arrived before the plan are moved to their series. */
  learn(plan: Plan): void {
    if (this.keys.knows(plan.number)) return;
    this.keys.learn(plan);
    const alone = `${plan.number}/`;
    const strangers = [...this.series].filter(([, { key }]) => key.startsWith(alone));
    for (const [name, { groups }] of strangers) {
      this.series.delete(name);
      for (const { layers, fetched } of groups.values()) {
        for (const record of [...layers.values()].flat()) {
          this.put(this.groupOf(this.seriesOf(record), record, fetched), record);
        }
      }
    }
  }

  /** The key of the series that the query wants. */
  keyOf({ plan, entry }: Pick<SeriesQuery, 'plan' | 'entry'>): string {
    return this.keys.of(plan, entry);
  }

  /** The steps of only the wanted series, ascending. */
  stepsOfSeries(query: SeriesQuery): number[] {
    const steps = this.wished(query).flatMap(({ groups }) => [...groups.keys()]);
    return [...new Set(steps)].sort((a, b) => a - b);
  }

  clear(): void {
    this.series.clear();
    this.keys.clear();
    this.slots.clear();
    this.queue = [];
    this.head = 0;
    this.used = 0;
  }

  /** The steps that have records for this query, ascending. */
  steps(query: SeriesQuery): number[] {
    const steps = new Set<number>();
    const wanted = this.keyOf(query);
    for (const { key, groups } of this.matching(query)) {
      for (const { step, plan } of groups.values()) {
        if (key === wanted || plan !== query.plan) steps.add(step);
      }
    }
    return [...steps].sort((a, b) => a - b);
  }

  /** The records of one step; those of the wanted series come first. */
  at(query: SeriesQuery, step: number): StepGroup | undefined {
    return this.allAt(query, step)[0];
  }

  /** The records of only the wanted series at each of the steps. */
  atEach(query: SeriesQuery, steps: readonly number[]): readonly StepGroup[] {
    const wished = this.wished(query);
    return steps.flatMap((step) => {
      for (const { groups } of wished) {
        const group = groups.get(step);
        if (group !== undefined) return [group];
      }
      return [];
    });
  }

  /**
   * All records of one step that match the query; those of the wanted series come first. Under the
   * query's plan, only the wanted series matches.
   */
  allAt(query: SeriesQuery, step: number): readonly StepGroup[] {
    const wanted = this.keyOf(query);
    return this.matching(query).flatMap(({ key, groups }) => {
      const group = groups.get(step);
      return group === undefined || (key !== wanted && group.plan === query.plan) ? [] : [group];
    });
  }

  /**
   * The step to show while the view follows: of the last eight steps, the one with the most records,
   * and of several, the newest. (A forward pass arrives layer by layer, and a slow viewer misses some
   * layers.)
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
    const kind = kindOf(query);
    const wanted = this.keyOf(query);
    const isWish = ({ key, dataRank }: Series): boolean => key === wanted && dataRank === 0;
    return [...this.series.values()]
      .filter((series) => series.kind === kind)
      .sort((a, b) => Number(isWish(b)) - Number(isWish(a)) || a.dataRank - b.dataRank);
  }

  private wished(query: SeriesQuery): readonly Series[] {
    const wanted = this.keyOf(query);
    return this.matching(query).filter(({ key }) => key === wanted);
  }

  private seriesOf(record: TensorRecord): Series {
    const name = this.nameOf(record);
    let series = this.series.get(name);
    if (series === undefined) {
      const { plan, entry, dataRank } = record.header;
      const key = this.keys.of(plan, entry);
      series = { kind: kindOfRecord(record), key, dataRank, groups: new Map() };
      this.series.set(name, series);
    }
    return series;
  }

  private nameOf(record: TensorRecord): string {
    const { plan, entry, dataRank } = record.header;
    return `${kindOfRecord(record)}/${dataRank}/${this.keys.of(plan, entry)}`;
  }

  /** The group of the record's step. Its records of another plan are dropped. */
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
    const { record } = this.queue[this.head++];
    if (record === null) return;
    this.release(record);
    const { groups } = this.seriesOf(record);
    const { step, layer } = record.header;
    const group = groups.get(step);
    const parts = group?.layers.get(layer);
    if (group === undefined || parts === undefined) return;
    parts.splice(parts.indexOf(record), 1);
    group.version += 1;
    if (parts.length === 0) group.layers.delete(layer);
    if (group.layers.size === 0) groups.delete(step);
    if (groups.size === 0) this.series.delete(this.nameOf(record));
  }

  /** Drops a record. No reference to its payload may remain. */
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

function kindOfRecord({ header }: TensorRecord): string {
  return kindOf({ ...header, form: formOf(header.compressor) });
}

function sizeOf(group: StepGroup): number {
  let size = 0;
  for (const parts of group.layers.values()) size += parts.length;
  return size;
}

function costOf(record: TensorRecord): number {
  return record.payload.byteLength + kOverheadBytes;
}
