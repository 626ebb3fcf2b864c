import { expect, test } from 'vitest';
import type { View, ViewQuery } from '../store/frames';
import { kTestQuery } from '../store/test_query';
import { makeRecord } from '../store/test_records';
import type { HistoryClient, RecordsQuery } from './history_client';
import { OtherRuns } from './other_runs';

/** A history in which every record has four numbers, each the last digit of the run's id. */
class Stage {
  readonly asked: string[] = [];
  readonly problems: string[] = [];
  answersAs: string | null = null;
  readonly runs = new OtherRuns(
    {
      records: ({ run, point, first, last }: RecordsQuery) => {
        this.asked.push(`${run} ${point} ${first}-${last}`);
        const number = Number(run.at(-1));
        const header = { run: this.answersAs ?? run, step: last };
        const record = makeRecord(header, new Float32Array(4).fill(number));
        const records = point === 'HiddenStates' ? [record] : [];
        return Promise.resolve({ records, bytes: 144 * records.length, next: null });
      },
    } as unknown as HistoryClient,
    {
      onFetched: () => undefined,
      onChanged: () => undefined,
      onProblem: (problem) => this.problems.push(problem),
    },
    () => 0,
  );

  async look(run: string, step: number, layout: ViewQuery['layout'] = 'one'): Promise<View> {
    const query: ViewQuery = { ...kTestQuery, run, step, layout };
    this.runs.build(query);
    for (let i = 0; i < 40; i++) await Promise.resolve();
    await new Promise((resolve) => setTimeout(resolve, 0));
    const view = this.runs.build(query);
    await this.runs.settled();
    return view;
  }
}

function firstCell(view: View): number | string {
  if (!('frame' in view)) return view.empty.reason;
  return view.frame.kind === 'maps' ? view.frame.tileMap.values[0] : view.frame.kind;
}

const [kOne, kTwo, kThree] = [1, 2, 3].map((digit) => String(digit).padStart(16, '0'));

test('each run has its own records, also at the same step', async () => {
  const stage = new Stage();
  expect(firstCell(await stage.look(kOne, 5))).toBe(1);
  expect(firstCell(await stage.look(kTwo, 5))).toBe(2);
  expect(firstCell(await stage.look(kOne, 5))).toBe(1);
  expect(stage.problems).toEqual([]);
});

test('the run not looked at for longest is forgotten, and asked for again', async () => {
  const stage = new Stage();
  for (const run of [kOne, kTwo, kThree]) await stage.look(run, 5);
  stage.asked.length = 0;
  await stage.look(kThree, 5);
  expect(stage.asked).toEqual([]);
  await stage.look(kOne, 5);
  expect(stage.asked).toContain(`${kOne} HiddenStates 5-5`);
});

test('records of a wrong run are left out', async () => {
  const stage = new Stage();
  stage.answersAs = kTwo;
  expect(firstCell(await stage.look(kOne, 5))).toBe('gap');
  expect(stage.problems[0]).toContain('another run');
});

test('only for a summary over the steps, the steps before are fetched too', async () => {
  const stage = new Stage();
  const fromStart = (): boolean =>
    stage.asked.some((each) => each.startsWith(`${kOne} HiddenStates 1-`));
  await stage.look(kOne, 5);
  expect(fromStart()).toBe(false);
  await stage.look(kOne, 5, 'over');
  expect(fromStart()).toBe(true);
});
