import { expect, test } from 'vitest';
import type { StepFacts } from '../../protocol/messages';
import { HistoryClient } from './history_client';
import { readPastSteps } from './past_steps';

/** A hub whose history has the steps from 1 to `steps`. */
function hubOf(steps: number, asked: string[] = []): HistoryClient {
  return new HistoryClient((path) => {
    asked.push(path);
    const query = new URL(path, 'http://hub').searchParams;
    const last = Math.min(steps, Number(query.get('last') ?? steps));
    const first = Math.max(1, last - Number(query.get('limit')) + 1);
    const rows = Array.from({ length: last - first + 1 }, (_, i) => ({ step: first + i, loss: 1 }));
    return Promise.resolve(new Response(JSON.stringify(rows)));
  });
}

async function read(client: HistoryClient, current = (): boolean => true): Promise<StepFacts[][]> {
  const pages: StepFacts[][] = [];
  await readPastSteps(client, '5f0c', (facts) => pages.push([...facts]), current);
  return pages;
}

test('all steps come, the newest page first', async () => {
  const asked: string[] = [];
  const pages = await read(hubOf(25_000, asked));
  expect(pages.map((page) => [page[0].step, page.at(-1)?.step])).toEqual([
    [15_001, 25_000],
    [5001, 15_000],
    [1, 5000],
  ]);
  expect(asked[0]).toBe('history/steps?run=5f0c&limit=10000');
  expect(asked[1]).toBe('history/steps?run=5f0c&limit=10000&last=15000');
});

test('more than 100,000 are thinned out', async () => {
  const pages = await read(hubOf(150_000));
  expect(pages.flat()).toHaveLength(75_000);
});

test('nobody waits any more, or nothing is kept', async () => {
  expect(await read(hubOf(25_000), () => false)).toEqual([]);
  const none = new HistoryClient(() => Promise.resolve(new Response('no', { status: 404 })));
  expect(await read(none)).toEqual([]);
  const away = new HistoryClient(() => Promise.reject(new TypeError()));
  expect(await read(away)).toEqual([]);
  expect(await away.range('5f0c')).toBeNull();
});
