import { parseLayers } from '../../protocol/layers';
import type { TensorRecord } from '../../protocol/record';
import type { ViewQuery } from '../store/frames';
import type { RingStore } from '../store/ring_store';
import { spacingOf } from '../store/spacing';
import { type Holding, seriesOf } from '../store/view';
import type { HistoryClient, RecordsQuery } from './history_client';

export interface ScrubberListener {
  onFetched(records: readonly TensorRecord[], bytes: number): void;
  /** A step that was looked for is here now, or what it lacks is known to be kept by nobody. */
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
// Of one step; an attention map of every layer may be large.
const kMaxPages = 16;
// So many steps on either side come along, for the next click.
const kAround = 2;
// The hub commits what it keeps once a second: a gap may be filled yet.
const kGapMs = 5000;
// What of a step is in nobody's hands is asked for no more often.
const kPartTries = 2;

/** What of a step is here: every layer that is wanted, some of them, or nothing. */
type Part = 'whole' | 'part' | 'none';

interface Gap {
  readonly at: number;
  readonly tries: number;
}

/** Fetches from the hub's history the steps that the page looks at and the store does not hold. */
export class Scrubber {
  private readonly gaps = new Map<string, Gap>();
  private asking = '';
  private next: FrameRequest | undefined;
  /** Counts what was wanted: what is fetched beside it ends with it. */
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

  /** How the step of the query stands; asks for it where it is not here. */
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

  /** One request at a time: while a slider moves, only its last place counts. */
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
    // Nobody waits for these: the next move does not, either.
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

  /** The tokens first: with them the picture is whole once its records are there. */
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

  /** What the next click may show, as long as nothing else is wanted. */
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

  /** As many whole steps as fit into one answer. */
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
