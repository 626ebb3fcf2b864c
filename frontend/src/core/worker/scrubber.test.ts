import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { RingStore } from '../store/ring_store';
import { makeRecord } from '../store/test_records';
import { kTestQuery } from '../store/test_query';
import { HistoryClient, type RecordsPage, type RecordsQuery } from './history_client';
import { Scrubber } from './scrubber';

/** A history that the test fills: it has the given steps of layers 1 and 2. */
class Stage {
  readonly asked: RecordsQuery[] = [];
  readonly store = new RingStore(1e6);
  now = 0;
  settled = 0;
  /** Requests that are never answered. */
  hangs: (query: RecordsQuery) => boolean = () => false;
  pages: number | null = null;
  readonly scrubber: Scrubber;

  constructor(readonly steps: readonly number[]) {
    const client = { records: (query: RecordsQuery) => this.answer(query) };
    this.scrubber = new Scrubber(
      client as unknown as HistoryClient,
      this.store,
      {
        onFetched: (records) => records.forEach((record) => this.store.insert(record, true)),
        onSettled: () => (this.settled += 1),
        onProblem: (problem) => expect.unreachable(problem),
      },
      () => this.now,
    );
    this.scrubber.ofRun('5f0c');
  }

  look(step: number | null, every = 1): string {
    return this.scrubber.look({ ...kTestQuery, step, every, layerRanges: '1-2' });
  }

  private async answer(query: RecordsQuery): Promise<RecordsPage> {
    this.asked.push(query);
    await (this.hangs(query) ? new Promise(() => undefined) : Promise.resolve());
    const steps = this.steps.filter((step) => step >= query.first && step <= query.last);
    const point = query.point === 'InputTokens' ? 8 : 7;
    const records = steps.flatMap((step) =>
      [1, 2].map((layer) => makeRecord({ step, layer, point })),
    );
    const next = this.pages !== null && query.after === undefined ? '1.1' : null;
    return { records: next === null ? records : records.slice(0, -1), bytes: 1, next };
  }
}

async function settle(): Promise<void> {
  for (let i = 0; i < 40; i++) await Promise.resolve();
}

test('a step that is not here is fetched with its tokens, and a few around it', async () => {
  const stage = new Stage([36, 37, 38, 39, 40, 41, 42, 43]);
  expect(stage.look(null)).toBe('here');
  expect(stage.look(40)).toBe('fetching');
  expect(stage.look(40)).toBe('fetching');
  await settle();
  expect(stage.asked.map(({ point, first, last }) => [point, first, last])).toEqual([
    ['InputTokens', 40, 40],
    ['HiddenStates', 40, 40],
    ['InputTokens', 38, 39],
    ['HiddenStates', 38, 39],
    ['InputTokens', 41, 42],
    ['HiddenStates', 41, 42],
  ]);
  expect(stage.asked[1]).toMatchObject({ run: '5f0c', layers: '1-2', limit: 4 * 2 ** 20 });
  expect([38, 40, 42].map((step) => stage.look(step))).toEqual(['here', 'here', 'here']);
  expect(stage.settled).toBe(1);
});

test('an entry of every tenth step is asked for around the tenth', async () => {
  const stage = new Stage([30, 40, 50]);
  expect(stage.look(43, 10)).toBe('fetching');
  await settle();
  expect(stage.asked[1]).toMatchObject({ first: 34, last: 52 });
  expect(stage.look(43, 10)).toBe('here');
});

test('a step that nobody keeps is a gap, and asked for again only later', async () => {
  const stage = new Stage([]);
  expect(stage.look(40)).toBe('fetching');
  await settle();
  const asked = stage.asked.length;
  expect(stage.look(40)).toBe('gap');
  await settle();
  expect(stage.asked).toHaveLength(asked);
  stage.now = 6000;
  expect(stage.look(40)).toBe('gap');
  await settle();
  expect(stage.asked.length).toBeGreaterThan(asked);
});

describe('a step of which only a part came', () => {
  test('is shown and completed from the history', async () => {
    const stage = new Stage([40]);
    stage.store.insert(makeRecord({ step: 40, layer: 1, point: 7 }));
    expect(stage.look(40)).toBe('fetching');
    await settle();
    expect([...(stage.store.at(kTestQuery, 40)?.layers.keys() ?? [])]).toEqual([1, 2]);
    const asked = stage.asked.length;
    expect(stage.look(40)).toBe('here');
    await settle();
    expect(stage.asked).toHaveLength(asked);
  });

  test('is asked for only twice where the history lacks the rest as well', async () => {
    const stage = new Stage([]);
    stage.store.insert(makeRecord({ step: 40, layer: 1, point: 7 }));
    expect(stage.look(40)).toBe('fetching');
    await settle();
    const asked = stage.asked.length;
    for (const now of [1000, 6000, 12_000, 18_000]) {
      stage.now = now;
      expect(stage.look(40)).toBe('here');
      await settle();
    }
    expect(stage.asked).toHaveLength(2 * asked);
  });
});

test('while one is fetched only the last of the others counts', async () => {
  const stage = new Stage([10, 20, 30, 40]);
  for (const step of [10, 20, 30, 40]) stage.look(step);
  await settle();
  const steps = stage.asked.filter(({ first, last }) => first === last).map(({ first }) => first);
  expect(new Set(steps)).toEqual(new Set([10, 40]));
});

test('the next step does not wait for what is fetched beside the one before', async () => {
  const stage = new Stage([10, 20]);
  stage.hangs = ({ first, last }) => first !== last;
  stage.look(10);
  await settle();
  stage.look(20);
  await settle();
  expect(stage.look(20)).toBe('here');
});

test('an answer that was cut off goes on; around it only whole steps count', async () => {
  const stage = new Stage([38, 39, 40]);
  stage.pages = 2;
  stage.look(40);
  await settle();
  expect(stage.asked[1].after).toBe('1.1');
  expect(stage.store.at(kTestQuery, 40)?.layers.size).toBe(2);
  expect(stage.store.steps(kTestQuery)).toEqual([38, 40]);
});

test('the client writes the query and reads records', async () => {
  const golden = readFileSync(
    join(import.meta.dirname, '..', '..', '..', '..', 'tests', 'golden', 'record_v1.bin'),
  );
  const asked: string[] = [];
  const client = new HistoryClient((path) => {
    asked.push(path);
    const headers = { 'TT-Next': '40.7' };
    return Promise.resolve(new Response(Uint8Array.from(golden), { headers }));
  });
  const query = { run: '5f0c', point: 'MLP1', first: 40, last: 41, limit: 100 };
  const page = await client.records({ ...query, layers: '1-4,8', after: '39.1' });
  expect(page?.next).toBe('40.7');
  expect(page?.records.length).toBeGreaterThan(0);
  await client.records({ ...query, layers: null });
  expect(asked).toEqual([
    'history/records?run=5f0c&point=MLP1&first=40&last=41&limit=100&layers=1-4%2C8&after=39.1',
    'history/records?run=5f0c&point=MLP1&first=40&last=41&limit=100',
  ]);
});
