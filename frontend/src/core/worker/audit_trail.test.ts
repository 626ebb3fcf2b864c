import { expect, test } from 'vitest';
import { AuditTrail } from './audit_trail';
import { HistoryClient } from './history_client';

/** A hub whose trail has `lines` lines, and a clock that the test moves. */
class Stage {
  lines = 0;
  status = 200;
  reads = 0;
  readonly asked: string[] = [];
  readonly got: number[] = [];
  readonly problems: string[] = [];
  readonly timers: (() => void)[] = [];
  readonly trail = new AuditTrail(
    new HistoryClient((path) => {
      this.asked.push(path);
      const query = new URL(path, 'http://hub').searchParams;
      const first = Number(query.get('after')) + 1;
      const last = Math.min(this.lines, first + Number(query.get('limit')) - 1);
      const rows = Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => ({
        ...{ id: first + i, time_ns: 1.8e18 + i, step: 1, kind: 'log', session: '', who: '' },
        detail: {},
      }));
      return Promise.resolve(new Response(JSON.stringify(rows), { status: this.status }));
    }),
    {
      onLines: (lines) => this.got.push(...lines.map(({ id }) => id)),
      onRead: () => (this.reads += 1),
      onProblem: (problem) => this.problems.push(problem),
      after: (_, action) => this.timers.push(action),
    },
  );

  async settle(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

test('all lines come at the beginning, page by page, and then the new ones', async () => {
  const stage = new Stage();
  stage.lines = 4500;
  stage.trail.begin();
  await stage.settle();
  expect(stage.got).toHaveLength(4500);
  expect(stage.asked.slice(0, 3)).toEqual(
    [0, 2000, 4000].map((after) => `history/events?after=${after}&limit=2000`),
  );
  expect(stage.reads).toBe(1);
  stage.lines = 4502;
  stage.trail.grew();
  stage.trail.grew();
  expect(stage.timers).toHaveLength(1);
  stage.timers[0]();
  await stage.settle();
  expect(stage.got.slice(4500)).toEqual([4501, 4502]);
});

test('a line that the hub writes late comes without another event', async () => {
  const stage = new Stage();
  stage.trail.begin();
  stage.timers[0](); // too early for the line of the event
  await stage.settle();
  stage.lines = 1;
  expect(stage.timers).toHaveLength(2);
  stage.timers[1]();
  await stage.settle();
  expect(stage.got).toEqual([1]);
  expect(stage.timers).toHaveLength(2);
});

test('a later reading makes the late one needless', async () => {
  const stage = new Stage();
  stage.trail.begin();
  stage.timers[0]();
  stage.trail.grew();
  stage.timers[2]();
  await stage.settle();
  const { length } = stage.asked;
  stage.timers[1]();
  await stage.settle();
  expect(stage.asked).toHaveLength(length);
});

test('a hub that was started again is read from the beginning', async () => {
  const stage = new Stage();
  stage.lines = 3;
  stage.trail.begin();
  await stage.settle();
  stage.lines = 2;
  stage.trail.begin();
  await stage.settle();
  expect(stage.got).toEqual([1, 2, 3, 1, 2]);
});

test('without a history there are no lines, and no problem', async () => {
  const stage = new Stage();
  stage.status = 404;
  stage.trail.begin();
  await stage.settle();
  expect([stage.got, stage.problems, stage.reads]).toEqual([[], [], 1]);
});
