import { expect, test } from 'vitest';
import type { View, ViewQuery } from '../store/frames';
import { kTestQuery } from '../store/test_query';
import { encodeRecord } from '../../e2e/fake_record';
import { HistoryClient } from './history_client';
import { OtherRuns } from './other_runs';

/** A history whose every record holds four times the run's last digit. */
class Stage {
  readonly asked: string[] = [];
  readonly problems: string[] = [];
  answersAs: string | null = null;
  readonly runs = new OtherRuns(
    new HistoryClient((path) => {
      const query = new URLSearchParams(path.split('?')[1]);
      const run = query.get('run') ?? '';
      this.asked.push(`${run} ${query.get('point')} ${query.get('first')}-${query.get('last')}`);
      const step = Number(query.get('last'));
      const number = Number(run.at(-1));
      const payload = Buffer.from(Float32Array.from([number, number, number, number]).buffer);
      const about = { sequence: 1, plan: 1, step, entry: 0, phase: 0, layer: 1, dtype: 2 };
      const fields = { ...about, compressor: 1, point: 7, features: 8, shape: [1, 2, 2] };
      const id = BigInt(`0x${this.answersAs ?? run}`);
      const isEmpty = query.get('point') !== 'HiddenStates';
      const body = isEmpty ? Buffer.alloc(0) : encodeRecord({ run: id, ...fields }, payload);
      return Promise.resolve(new Response(new Uint8Array(body)));
    }),
    {
      onFetched: () => undefined,
      onChanged: () => undefined,
      onProblem: (problem) => this.problems.push(problem),
    },
    () => 0,
  );

  async look(run: string, step: number): Promise<View> {
    const query: ViewQuery = { ...kTestQuery, run, step };
    this.runs.build(query);
    for (let i = 0; i < 40; i++) await Promise.resolve();
    await new Promise((resolve) => setTimeout(resolve, 0));
    return this.runs.build(query);
  }
}

function firstCell(view: View): number | string {
  if (!('frame' in view)) return view.empty.reason;
  return view.frame.kind === 'maps' ? view.frame.tileMap.values[0] : view.frame.kind;
}

const [kOne, kTwo, kThree] = [1, 2, 3].map((digit) => String(digit).padStart(16, '0'));

test('each run has records of its own, also at the same step', async () => {
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
