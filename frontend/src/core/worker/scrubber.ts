import { parseLayers } from '../../protocol/layers';
import type { TensorRecord } from '../../protocol/record';
import type { ViewQuery } from '../store/frames';
import type { RingStore } from '../store/ring_store';
import { spacingOf } from '../store/spacing';
import { type Holding, seriesOf } from '../store/view';
import type { HistoryClient, RecordsQuery } from './history_client';

export interface ScrubberListener {
  onFetched(records: readonly TensorRecord[], bytes: number): void;
  /** A requested step is in the store now, or its missing records are known to be not available. */
  onSettled(): void;
  onProblem(message: string): void;
}

interface FrameRequest {
  readonly key: string;
  readonly query: ViewQuery;
  readonly step: number;
  readonly spacing: number;
}

const kPageBytes = 4 * 2 ** 20;
// The most pages for one step; the attention maps of all layers may be large.
const kMaxPages = 16;
// The number of steps on each side that are also fetched, for the next click.
const kAround = 2;
// The hub commits its history once per second, so a gap may be filled later.
const kGapMs = 5000;
// The most requests for the missing layers of a step.
const kPartTries = 2;

/** The part of a step in the store: every wanted layer, some layers, or none. */
type Part = 'whole' | 'part' | 'none';

interface Gap {
  readonly at: number;
  readonly tries: number;
}

/** Fetches from the hub's history the steps that the page shows and the store does not have. */
export class Scrubber {
  private readonly gaps = new Map<string, Gap>();
  private asking = '';
  private next: FrameRequest | undefined;
  /** The number of wanted steps so far. Fetching the steps around one stops at the next one. */
  private turn = 0;
  private run = '';

  constructor(
    private readonly client: HistoryClient,
    private readonly store: RingStore,
    private readonly listener: ScrubberListener,
    private readonly now: () => number,
  ) {}

  ofRun(run: string): void {
    this.run = run;
    this.gaps.clear();
    this.next = undefined;
  }

  /** The state of the query's step. Requests the step if the store does not have it. */
  look(query: ViewQuery): Holding {
    const { step } = query;
    if (step === null || this.run === '') return 'here';
    const steps = this.store.steps(seriesOf(query));
    const spacing = spacingOf(steps, query.every);
    const part = this.partOf(query, steps, step, spacing);
    if (part === 'whole') return 'here';
    const { point, entry, plan, phase, direction, promptSet, form, layerRanges } = query;
    const key = [point, entry, plan, phase, direction, promptSet, form, layerRanges, step].join(
      '/',
    );
    const gap = this.gaps.get(key);
    if (gap === undefined || this.isWorthATry(gap, part)) {
      this.want({ key, query, step, spacing });
    }
    if (gap === undefined) return 'fetching';
    return part === 'part' ? 'here' : 'gap';
  }

  private partOf(query: ViewQuery, steps: readonly number[], step: number, spacing: number): Part {
    const [nearest] = steps
      .filter((each) => Math.abs(each - step) < spacing)
      .sort((a, b) => Math.abs(a - step) - Math.abs(b - step));
    const group = this.store.at(seriesOf(query), nearest);
    if (group === undefined) return 'none';
    const wanted = parseLayers(query.layerRanges ?? '') ?? [];
    return wanted.every((layer) => group.layers.has(layer)) ? 'whole' : 'part';
  }

  private isWorthATry({ at, tries }: Gap, part: Part): boolean {
    return this.now() - at > kGapMs && (part === 'none' || tries < kPartTries);
  }

  /** One request at a time: while a slider moves, only its last position is fetched. */
  private want(wanted: FrameRequest): void {
    if (this.asking === wanted.key) return;
    this.next = wanted;
    this.turn += 1;
    if (this.asking === '') void this.work();
  }

  private async work(): Promise<void> {
    let wanted: FrameRequest | undefined;
    while (this.next !== undefined) {
      wanted = this.next;
      this.next = undefined;
      this.asking = wanted.key;
      await this.attempt(this.fetchWhole(wanted));
      this.settle(wanted);
      this.asking = '';
      this.listener.onSettled();
    }
    // These steps are not awaited, and the next move does not wait for them.
    if (wanted !== undefined) void this.attempt(this.fetchAround(wanted, this.turn));
  }

  private async attempt(fetching: Promise<void>): Promise<void> {
    try {
      await fetching;
    } catch (error) {
      this.listener.onProblem(`history: ${String(error)}`);
    }
  }

  private settle({ key, query, step, spacing }: FrameRequest): void {
    const steps = this.store.steps(seriesOf(query));
    const tries = (this.gaps.get(key)?.tries ?? 0) + 1;
    if (this.partOf(query, steps, step, spacing) === 'whole') this.gaps.delete(key);
    else this.gaps.set(key, { at: this.now(), tries });
  }

  /** Fetches the tokens first, so that the view is complete when its records arrive. */
  private async fetchWhole({ query, step, spacing }: FrameRequest): Promise<void> {
    const [first, last] = [step - spacing + 1, step + spacing - 1];
    await this.fetchPages(this.recordsOf('InputTokens', null, first, last));
    await this.fetchPages(this.recordsOf(query.pointName, query.layerRanges, first, last));
  }

  private async fetchPages(query: RecordsQuery): Promise<void> {
    let after: string | null | undefined;
    for (let page = 0; page < kMaxPages && after !== null; page++) {
      const answer = await this.client.records({ ...query, after });
      if (answer === undefined || query.run !== this.run) return;
      this.listener.onFetched(answer.records, answer.bytes);
      after = answer.next;
    }
  }

  /** Fetches the steps that the next click may show, until another step is wanted. */
  private async fetchAround({ query, step, spacing }: FrameRequest, turn: number): Promise<void> {
    for (const [first, last] of [
      [step - kAround * spacing, step - spacing],
      [step + spacing, step + kAround * spacing],
    ]) {
      for (const [point, layers] of [
        ['InputTokens', null],
        [query.pointName, query.layerRanges],
      ] as const) {
        if (turn !== this.turn || last < 1) break;
        await this.fetchSome(this.recordsOf(point, layers, first, last));
      }
    }
  }

  /** Fetches as many complete steps as fit into one answer. */
  private async fetchSome(wanted: RecordsQuery): Promise<void> {
    const answer = await this.client.records(wanted);
    if (answer === undefined || wanted.run !== this.run) return;
    const cut = answer.next === null ? undefined : answer.records.at(-1)?.header.step;
    const whole = answer.records.filter(({ header }) => header.step !== cut);
    this.listener.onFetched(whole, answer.bytes);
  }

  private recordsOf(
    point: string,
    layers: string | null,
    first: number,
    last: number,
  ): RecordsQuery {
    return { run: this.run, point, layers, first: Math.max(1, first), last, limit: kPageBytes };
  }
}
