import { describe, expect, test } from 'vitest';
import type { AuditLine } from '../../protocol/messages';
import { alarmsOf } from './alarms';
import { EventStore, kMaxEvents } from './event_store';
import { lastCheckpoint } from './run_event';

let lastId = 0;

function line(kind: string, step: number, detail: unknown, who = ''): AuditLine {
  lastId += 1;
  return { id: lastId, run: '', time_ns: 1e18 + lastId * 1e9, step, kind, who, detail };
}

const plan = (
  number: number,
  ...points: string[]
): { number: number; entries: { point: string }[] } => ({
  number,
  entries: points.map((point) => ({ point })),
});

function texts(store: EventStore): string[] {
  return store.all.map(({ step, text, who }) => `${step} ${text}${who === '' ? '' : ` (${who})`}`);
}

describe('EventStore', () => {
  test('a notification and both lines of the trail about one plan are one event', () => {
    const store = new EventStore();
    const params = { plan: plan(2, 'MLP1', 'QKV'), step: 13 };
    expect(store.add({ event: 'plan', params }, 12, 5)).toBe(true);
    expect(texts(store)).toEqual(['13 Plan 2: MLP1, QKV']);
    const set = { params: {}, result: { ...params, ranks: 2 }, step: 13 };
    store.merge([line('plan', 13, params), line('plan.set', 13, set, 'Ada')]);
    expect(texts(store)).toEqual(['13 Plan 2: MLP1, QKV (Ada)']);
  });

  test('typed prompts are events in words; the list of the sets is not an event', () => {
    const store = new EventStore();
    store.merge([
      line('prompt.run', 12, {}, 'Ada'),
      line('prompt.keep', 13, {}, 'Ada'),
      line('prompts', 13, { prompt_sets: [] }),
      line('prompt.remove', 20, {}, 'Bob'),
    ]);
    expect(texts(store)).toEqual([
      '12 A typed prompt ran (Ada)',
      '13 A prompt was kept (Ada)',
      '20 A prompt was removed (Bob)',
    ]);
  });

  test('a checkpoint and the request for it are events of the run', () => {
    const store = new EventStore();
    const params = { step: 100, path: '/a/step_00000100', bytes: 5, seconds: 1.5 };
    expect(store.add({ event: 'checkpoint', params }, 104, 5)).toBe(true);
    expect(texts(store)).toEqual(['100 Checkpoint of step 100 saved']);
    store.merge([line('checkpoint.save', 100, {}, 'Ada'), line('checkpoint', 104, params)]);
    expect(texts(store)).toEqual([
      '100 Checkpoint requested (Ada)',
      '100 Checkpoint of step 100 saved',
    ]);
    expect(new Set(store.all.map(({ kind }) => kind))).toEqual(new Set(['run']));
    expect(lastCheckpoint(store.all)).toBe(100);
    expect(lastCheckpoint([])).toBeUndefined();
  });

  test('a plan is told by what it changes, where the plan before it is known', () => {
    const store = new EventStore();
    const params = { plan: plan(3, 'MLP1', 'QKV'), step: 13 };
    store.greeted({ phase: 'training', step: 12 }, { holder: null }, { plan: plan(2, 'MLP1') });
    store.add({ event: 'plan', params }, 12, 5);
    expect(texts(store)).toEqual(['13 Plan 3: + QKV']);
    store.clear();
    store.merge([
      line('run', 0, { plan: plan(1, 'Logits') }),
      line('plan', 13, { plan: plan(2, 'MLP1', 'Logits'), step: 13 }),
      line('plan', 15, { plan: plan(3, 'Logits', 'MLP1'), step: 16 }),
    ]);
    expect(texts(store)).toEqual(['13 Plan 2: + MLP1', '16 Plan 3: the same entries']);
  });

  test('a pause is told by the state, by the trail, and by who asked', () => {
    const store = new EventStore();
    store.greeted({ phase: 'training', step: 11 }, { holder: null });
    store.add({ event: 'control', params: { holder: { session: 'v1', name: 'Ada' } } }, 12, 1);
    store.add({ event: 'state', params: { phase: 'paused', step: 12 } }, 11, 2);
    store.add({ event: 'state', params: { phase: 'training', step: 12 } }, 12, 3);
    const wanted = ['12 Ada took control', '12 Paused', '12 Continued'];
    expect(texts(store)).toEqual(wanted);
    const lines = [
      line('state', 0, { phase: 'training', step: 0 }),
      line('control.claim', 12, { take_over: false }, 'Ada'),
      line('state', 12, { phase: 'paused', step: 12 }),
      line('control.pause', 12, { result: { step: 12, ranks: 2 }, step: 12 }, 'Ada'),
      line('state', 12, { phase: 'training', step: 12 }),
      line('control.continue', 12, { result: { step: 12, ranks: 2 }, step: 12 }, 'Ada'),
    ];
    store.merge(lines);
    const named = ['12 Ada took control', '12 Paused (Ada)', '12 Continued (Ada)'];
    expect(texts(store)).toEqual(['0 Training began', ...named]);
    // After a new connection, the whole trail arrives again.
    store.merge(lines);
    expect(texts(store)).toHaveLength(4);
  });

  test('what is told twice by one source happened twice', () => {
    const store = new EventStore();
    const params = { level: 'warning', message: 'the disk is nearly full' };
    store.merge([line('log', 12, params), line('log', 12, params)]);
    store.add({ event: 'log', params }, 12, 1);
    expect(texts(store)).toEqual(Array(2).fill('12 the disk is nearly full'));
    expect(store.all[0]).toMatchObject({ kind: 'alarm', tone: 'warn' });
    store.add({ event: 'log', params }, 40, 1);
    expect(texts(store)).toHaveLength(3);
  });

  test('evaluations and steps are no events; an end, a loss and a return are', () => {
    const store = new EventStore();
    const phases = ['training', 'evaluating', 'training', 'lost', 'training', 'finished'];
    store.merge(phases.map((phase, step) => line('state', step, { phase, step })));
    store.merge([line('replay.seek', 5, {}), line('intervention.apply', 5, {}, 'Ada')]);
    store.merge([line('plan', 5, { nonsense: true })]);
    expect(texts(store)).toEqual([
      '0 Training began',
      '3 Trainer lost',
      '4 Trainer is back',
      '5 Run finished',
      '5 intervention.apply (Ada)',
    ]);
  });

  test('drops in a row are one line', () => {
    const store = new EventStore();
    const drop = (where: string, records: number, step: number, events = 0): void =>
      void store.add({ event: 'dropped', params: { where, records, events } }, step, step);
    drop('viewer', 3, 5);
    drop('viewer', 4, 8);
    drop('trainer', 1, 9);
    expect(texts(store)).toEqual([
      '5 7 records dropped on the way to this page',
      "9 1 record dropped by the trainer's queue",
    ]);
    expect(store.all[0]).toMatchObject({ records: 7, step: 5, lastStep: 8 });
    store.clear();
    drop('viewer', 0, 5, 7);
    expect(texts(store)).toEqual(['5 7 program messages dropped on the way to this page']);
    drop('viewer', 1, 6, 0);
    drop('trainer', 0, 7, 1);
    expect(texts(store)).toEqual([
      '5 1 record and 7 program messages dropped on the way to this page',
      "7 1 message dropped by the trainer's queue",
    ]);
  });

  test('an alarm of the hub is one event, by its notification and by the trail', () => {
    const store = new EventStore();
    const alarm = {
      name: 'high',
      test: 'above',
      scalar: 'loss',
      state: 'firing' as const,
      fires: 1,
    };
    const set = { change: 'set' as const, alarm };
    const message = 'alarm high: loss is above 5 at step 12: 6';
    const fired = { change: 'fired' as const, step: 12, value: 6, message, alarm };
    store.add({ event: 'alarm', params: set }, 3, 1);
    store.add({ event: 'alarm', params: fired }, 13, 2);
    store.merge([line('alarm', 3, set, 'Ada'), line('alarm', 12, fired)]);
    expect(texts(store)).toEqual(['3 alarm high set (Ada)', `12 ${message}`]);
    expect(store.all[0]).toMatchObject({ kind: 'control', tone: 'plain' });
    expect(store.all[1]).toMatchObject({ kind: 'alarm', tone: 'bad' });
  });

  test('the oldest of very many are forgotten', () => {
    const store = new EventStore();
    const lines = Array.from({ length: kMaxEvents + 10 }, (_, i) =>
      line('log', i, { level: 'info', message: `line ${i}` }),
    );
    store.merge(lines);
    expect(store.all).toHaveLength(kMaxEvents);
    expect(store.all[0].text).toBe('line 10');
  });
});

test('an alarm begins where a number stops being finite', () => {
  const alarms = alarmsOf([
    { step: 1, loss: 3, grad_norm: 1 },
    { step: 2, loss: Number.NaN, grad_norm: Number.POSITIVE_INFINITY },
    { step: 3, loss: null },
    { step: 4, loss: 3 },
    { step: 5, loss: null },
  ]);
  expect(alarms.map(({ step, text }) => `${step} ${text}`)).toEqual([
    '2 Loss is NaN',
    '5 Loss is NaN',
    '2 Grad norm is +Inf',
  ]);
});
