import { expect, test } from 'vitest';
import type { PlanEntry } from '../../protocol/messages';
import type { ViewQuery } from '../store/frames';
import { PlanHistory } from '../store/plan_history';
import { RingStore } from '../store/ring_store';
import { kTestQuery } from '../store/test_query';
import { makeRecord } from '../store/test_records';
import { CurvePast } from './curve_past';
import type { RecordsPage, RecordsQuery } from './history_client';

const kMebibyte = 2 ** 20;

/** A history of records of 1 MiB each, and a page that was opened at step 40. */
class Stage {
  readonly asked: RecordsQuery[] = [];
  readonly problems: string[] = [];
  readonly plans = new PlanHistory();
  readonly past: CurvePast;
  /** Steps that are missing in the history. */
  holes: readonly [first: number, last: number] = [0, 0];
  tokenBytes = 0;
  compressor = 1;
  failing: 'no' | 'refused' | 'unreadable' = 'no';

  constructor(
    readonly oldest: number,
    readonly every = 1,
    readonly store = new RingStore(1e9),
  ) {
    this.past = new CurvePast({ records: (query) => this.answer(query) }, this.store, this.plans, {
      onFetched: (records) => records.forEach((record) => this.store.insert(record, true)),
      onProblem: (problem) => this.problems.push(problem),
    });
    this.past.ofRun('5f0c');
    this.past.plansKnown();
  }

  /** Plans that came into force at these steps. */
  learn(...plans: (readonly [since: number, entries: readonly PlanEntry[]])[]): void {
    plans.forEach(([since, entries], index) => {
      this.plans.add({ number: index + 1, entries }, since);
      this.store.learn({ number: index + 1, entries });
    });
  }

  record(step: number, plan?: number, entry = 0): ReturnType<typeof makeRecord> {
    const number =
      plan ?? Math.max(1, this.plans.all.findLast(({ since }) => since <= step)?.plan.number ?? 1);
    return makeRecord(
      { step, plan: number, entry, compressor: this.compressor },
      new Float32Array(kMebibyte / 4),
    );
  }

  async look(query: Partial<ViewQuery> = { layout: 'over' }): Promise<number[]> {
    this.past.look({ ...kTestQuery, every: this.every, ...query });
    for (let i = 0; i < 200; i++) await Promise.resolve();
    return this.store.steps({ ...kTestQuery, form: query.form ?? 'values' });
  }

  private answer(query: RecordsQuery): Promise<RecordsPage | undefined> {
    this.asked.push(query);
    if (this.failing === 'refused') return Promise.resolve(undefined);
    if (this.failing === 'unreadable') return Promise.reject(new Error('cut off'));
    if (query.point === 'InputTokens') {
      return Promise.resolve({ records: [], bytes: this.tokenBytes, next: null });
    }
    const isLost = (step: number): boolean => step >= this.holes[0] && step <= this.holes[1];
    const records = [];
    for (let step = query.first; step <= query.last; step++) {
      if (step < this.oldest || step % this.every !== 0 || isLost(step)) continue;
      records.push(this.record(step, undefined, query.entry));
    }
    const at = query.after === undefined ? 0 : Number(query.after);
    const page = records.slice(at, at + 4);
    const next = records.length > at + 4 ? String(at + 4) : null;
    return Promise.resolve({ records: page, bytes: page.length * kMebibyte, next });
  }
}

const range = (first: number, last: number, every = 1): number[] =>
  Array.from({ length: (last - first) / every + 1 }, (_, i) => first + i * every);

test('a curve is fetched backwards from the oldest step, whole to where the bytes end', async () => {
  const stage = new Stage(1);
  stage.store.insert(stage.record(40));
  expect(await stage.look()).toEqual(range(22, 40));
  expect(stage.asked.map(({ point, first, last }) => [point, first, last]).slice(0, 4)).toEqual([
    ['InputTokens', 37, 39],
    ['HiddenStates', 37, 39],
    ['InputTokens', 34, 36],
    ['HiddenStates', 34, 36],
  ]);
  expect(stage.asked[0]).toMatchObject({ run: '5f0c', layers: null });
  expect(stage.asked[1]).toMatchObject({ run: '5f0c', layers: null, entry: 0 });
});

test('it ends where the history begins, and is asked for once', async () => {
  const stage = new Stage(31);
  stage.store.insert(stage.record(40));
  expect(await stage.look()).toEqual(range(31, 40));
  const asked = stage.asked.length;
  expect(await stage.look()).toEqual(range(31, 40));
  expect(stage.asked.length).toBe(asked);
});

test('an entry of every tenth step reaches ten times as far', async () => {
  const stage = new Stage(1, 10);
  stage.store.insert(stage.record(90));
  expect(await stage.look()).toEqual(range(10, 90, 10));
});

test('steps that were larger once do not cost more than the bytes allow', async () => {
  const stage = new Stage(1);
  stage.store.insert(makeRecord({ step: 40 }));
  expect(await stage.look()).toEqual([...range(1, 16), 40]);
});

test('tokens count too, and statistics need none', async () => {
  const stage = new Stage(1);
  stage.tokenBytes = 5 * kMebibyte;
  stage.store.insert(stage.record(40));
  expect(await stage.look()).toEqual(range(34, 40));
  const stats = new Stage(1);
  stats.compressor = 3;
  stats.store.insert(stats.record(40));
  expect(await stats.look({ form: 'stats' })).toEqual(range(22, 40));
  expect(stats.asked.every(({ point }) => point === 'HiddenStates')).toBe(true);
});

test('what the store holds is not pushed out by what is fetched', async () => {
  const stage = new Stage(1, 1, new RingStore(12.5 * kMebibyte));
  for (const step of range(36, 40)) stage.store.insert(stage.record(step));
  const held = await stage.look();
  expect(held.slice(-5)).toEqual(range(36, 40));
  expect(held).toEqual(range(held[0], 40));
  expect(held[0]).toBeLessThan(36);
  expect(stage.store.bytes).toBeLessThanOrEqual(stage.store.capacity);
});

test('a series whose spacing is known by now is asked for anew', async () => {
  const stage = new Stage(31);
  stage.store.insert(stage.record(40));
  await stage.look();
  const asked = stage.asked.length;
  await stage.look({ layout: 'over', every: 5 });
  expect(stage.asked.length).toBeGreaterThan(asked);
});

test.each(['refused', 'unreadable'] as const)(
  'a request that is %s is made again when the hub has greeted again',
  async (failing) => {
    const stage = new Stage(31);
    stage.store.insert(stage.record(40));
    stage.failing = failing;
    expect(await stage.look()).toEqual([40]);
    expect(await stage.look()).toEqual([40]);
    expect([stage.asked.length, stage.problems.length]).toEqual([
      1,
      failing === 'unreadable' ? 1 : 0,
    ]);
    stage.failing = 'no';
    stage.past.begin();
    expect(await stage.look()).toEqual(range(31, 40));
  },
);

test('it goes on behind an empty stretch, in longer and longer ones', async () => {
  const stage = new Stage(1);
  stage.holes = [5, 39];
  stage.store.insert(stage.record(40));
  expect(await stage.look()).toEqual([...range(1, 4), 40]);
  const asked = stage.asked.filter(({ point }) => point === 'HiddenStates');
  expect(asked.map(({ first, last }) => [first, last])).toEqual([
    [37, 39],
    [31, 36],
    [19, 30],
    [1, 18],
  ]);
});

test('a history that has nothing is not asked for ever', async () => {
  const stage = new Stage(1e9);
  stage.store.insert(stage.record(1e6));
  await stage.look();
  expect(stage.asked.filter(({ point }) => point === 'HiddenStates').length).toBe(9);
});

test('it is fetched back from the steps that end with the newest', async () => {
  const stage = new Stage(1);
  for (const step of [5, 38, 39, 40]) stage.store.insert(stage.record(step));
  const held = await stage.look();
  expect(held.slice(-19)).toEqual(range(22, 40));
});

test('a view of one step asks for nothing', async () => {
  const stage = new Stage(1);
  stage.store.insert(stage.record(40));
  expect(await stage.look({ layout: 'one' })).toEqual([40]);
  expect(stage.asked).toEqual([]);
});

test('what comes for another run is not taken', async () => {
  const stage = new Stage(1);
  stage.store.insert(stage.record(40));
  stage.past.look({ ...kTestQuery, layout: 'over' });
  stage.past.ofRun('77');
  for (let i = 0; i < 40; i++) await Promise.resolve();
  expect(stage.store.steps({ ...kTestQuery, form: 'values' })).toEqual([40]);
});

test('it goes on through the plans that the series was in, by its number in each', async () => {
  const stage = new Stage(1);
  const [tiles, stats] = [{ point: 'HiddenStates' }, { point: 'MLP1' }];
  stage.learn([0, [tiles, stats]], [10, [stats, tiles]], [20, [stats]], [30, [tiles]]);
  stage.store.insert(stage.record(40, 4));
  await stage.look({ layout: 'over', plan: 4 });
  const states = stage.asked.filter(({ point }) => point === 'HiddenStates');
  expect(states.map(({ first, last, entry }) => [first, last, entry])).toEqual([
    [37, 39, 0],
    [34, 36, 0],
    [31, 33, 0],
    [30, 30, 0],
    [17, 19, 1],
    [14, 16, 1],
  ]);
  const held = stage.store.stepsOfSeries({ ...kTestQuery, form: 'values', plan: 4 });
  expect(held).toEqual([...range(14, 19), ...range(30, 40)]);
});

test('a plan that changes alone asks for nothing again', async () => {
  const stage = new Stage(31);
  stage.learn([0, [{ point: 'HiddenStates' }]]);
  stage.store.insert(stage.record(40));
  await stage.look();
  const asked = stage.asked.length;
  stage.learn(
    [0, [{ point: 'HiddenStates' }]],
    [41, [{ point: 'MLP1' }, { point: 'HiddenStates' }]],
  );
  await stage.look({ layout: 'over', plan: 2, entry: 1 });
  expect(stage.asked.length).toBe(asked);
});

test('nothing is fetched before the plans are known', async () => {
  const stage = new Stage(31);
  stage.past.ofRun('77');
  stage.store.insert(stage.record(40));
  await stage.look();
  expect(stage.asked).toEqual([]);
  stage.past.plansKnown();
  await stage.look();
  expect(stage.asked).not.toEqual([]);
});
