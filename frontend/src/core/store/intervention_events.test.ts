import { beforeEach, expect, test } from 'vitest';
import { type InterventionsFacts, interventionsSchema } from '../../protocol/interventions';
import type { AuditLine, Notification } from '../../protocol/messages';
import { EventStore } from './event_store';

let lastId = 0;
let store: EventStore;
beforeEach(() => (store = new EventStore()));

function line(kind: string, step: number, detail: unknown, who = ''): AuditLine {
  lastId += 1;
  return { id: lastId, run: '', time_ns: 1e18 + lastId * 1e9, step, kind, who, detail };
}

/** Programs by name: the step from which each is in force, and its parameter alpha. */
type Programs = Readonly<Record<string, readonly [since: number, alpha: number]>>;

function facts(step: number, reason: string, programs: Programs): InterventionsFacts {
  const list = Object.entries(programs).map(([name, [since, value]]) => ({
    ...{ name, since },
    parameters: [{ name: 'alpha', value }],
  }));
  return interventionsSchema({ step, reason, programs: list }, '');
}

function tell(step: number, reason: string, programs: Programs): void {
  const params = facts(step, reason, programs);
  store.add({ event: 'interventions', params }, step - 1, step);
}

function texts(): string[] {
  return store.all.map(({ step, text, who }) => `${step} ${text}${who === '' ? '' : ` (${who})`}`);
}

test('what befell a program is told once, with who asked', () => {
  tell(13, 'apply', { steer: [13, 4] });
  tell(20, 'remove', {});
  store.merge([
    line('intervention.check', 12, {}),
    line('intervention.apply', 13, { params: { name: 'steer' }, result: { step: 13 } }, 'Ada'),
    line('interventions', 13, facts(13, 'apply', { steer: [13, 4] })),
    line('intervention.preview', 15, {}, 'Ada'),
    line('intervention.remove', 20, { params: {}, result: { removed: ['steer'] } }, 'Ada'),
    line('interventions', 20, facts(20, 'remove', {})),
  ]);
  expect(texts()).toEqual(['13 Applied steer (Ada)', '20 Reverted steer (Ada)']);
  expect(store.all.map(({ kind }) => kind)).toEqual(['intervention', 'intervention']);
});

test('an end that nobody asked for says why', () => {
  const { programs } = facts(2, 'apply', { a: [2, 0], b: [2, 0], c: [2, 0], d: [2, 0] });
  const run = { interventions: programs };
  store.greeted({ phase: 'training', step: 11 }, { holder: null }, run);
  tell(12, 'expired', { b: [2, 0], c: [2, 0], d: [2, 0] });
  tell(13, 'failed', { c: [2, 0], d: [2, 0] });
  tell(14, 'lease', {});
  expect(texts()).toEqual([
    '12 Ended a after the set number of steps',
    '13 Removed b because of an error',
    '14 Reverted c, d: the lease of control ended',
  ]);
  expect(store.all.map(({ tone }) => tone)).toEqual(['plain', 'bad', 'warn']);
});

test('the moves of one slider are one line, with the last value', () => {
  tell(13, 'apply', { steer: [13, 4], other: [13, 1] });
  for (let step = 14; step < 40; step++) tell(step, 'set', { steer: [13, step], other: [13, 1] });
  const asked = { params: { name: 'steer', parameter: 'alpha', value: 39 } };
  store.merge([line('intervention.set', 39, asked)]);
  tell(40, 'set', { steer: [13, 39], other: [13, 2] });
  expect(texts()).toEqual([
    '13 Applied other, steer',
    '14 steer: alpha = 39',
    '40 other: alpha = 2',
  ]);
  expect(store.all[1].lastStep).toBe(39);
});

test('a further pass of a replay tells nothing anew', () => {
  store.greeted({ phase: 'replay', step: 11 }, { holder: null });
  for (let pass = 0; pass < 3; pass++) {
    tell(11, 'replay', {});
    tell(13, 'apply', { steer: [13, 4] });
    tell(14, 'set', { steer: [13, 5] });
    tell(20, 'remove', {});
    if (pass === 0)
      store.merge([line('interventions', 13, facts(13, 'apply', { steer: [13, 4] }))]);
  }
  expect(texts()).toEqual(['13 Applied steer', '14 steer: alpha = 5', '20 Reverted steer']);
});

test('one of the same name is applied anew; another stays and is not told', () => {
  tell(13, 'apply', { steer: [13, 4], other: [13, 1] });
  tell(20, 'apply', { steer: [20, 4], other: [13, 1] });
  expect(texts()[1]).toBe('20 Applied steer');
});

test('what programs do and save is no event, nor is a value that a later one replaced', () => {
  const quiet: Notification[] = [
    { event: 'applied', params: { step: 13, programs: [] } },
    { event: 'saved', params: { step: 13, program: 'steer', name: 'x', values: [1] } as never },
  ];
  for (const each of quiet) expect(store.add(each, 13, 1)).toBe(false);
  const refused = { method: 'intervention.set', message: 'a later value came' };
  store.merge([line('refused', 13, { ...refused, code: 'superseded' }, 'Ada')]);
  store.merge([line('applied', 13, {}), line('saved', 13, {})]);
  expect(texts()).toEqual([]);
});
