import { expect, test } from 'vitest';
import type { ViewQuery } from '../store/frames';
import { RingStore } from '../store/ring_store';
import { kTestQuery } from '../store/test_query';
import { makeRecord } from '../store/test_records';
import { CurvePast } from './curve_past';
import type { RecordsPage, RecordsQuery } from './history_client';

const kMebibyte = 2 ** 20;

/** A history of records of one MiB, and a page that came at step 40. */
class Stage {
  readonly asked: RecordsQuery[] = [];
  readonly store = new RingStore(1e9);
  readonly past: CurvePast;

  constructor(
    readonly oldest: number,
    readonly every = 1,
  ) {
    this.past = new CurvePast({ records: (query) => this.answer(query) }, this.store, {
      onFetched: (records) => records.forEach((record) => this.store.insert(record, true)),
      onProblem: (problem) => expect.unreachable(problem),
    });
    this.past.ofRun('5f0c');
  }

  record(step: number): ReturnType<typeof makeRecord> {
    return makeRecord({ step }, new Float32Array(kMebibyte / 4));
  }

  async look(query: Partial<ViewQuery> = { layout: 'over' }): Promise<number[]> {
    this.past.look({ ...kTestQuery, every: this.every, ...query });
    for (let i = 0; i < 80; i++) await Promise.resolve();
    return this.store.steps({ ...kTestQuery, form: 'values' });
  }

  private answer(query: RecordsQuery): Promise<RecordsPage> {
    this.asked.push(query);
    if (query.point === 'InputTokens') {
      return Promise.resolve({ records: [], bytes: 0, next: null });
    }
    const records = [];
    for (let step = query.first; step <= query.last; step++) {
      if (step >= this.oldest && step % this.every === 0) records.push(this.record(step));
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
