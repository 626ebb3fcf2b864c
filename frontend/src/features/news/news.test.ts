import { expect, test, vi } from 'vitest';
import type { Program } from '../../protocol/interventions';
import type { Notification } from '../../protocol/messages';
import { type Before, newsOf } from './news';

const kAda = { session: 'v9', name: 'Ada' };
const kMe = { session: 'v1', name: 'Grace' };
const kBefore: Before = {
  ...{ phase: 'training', holder: kMe, me: 'v1', plan: 1 },
  ...{ programs: ['steer'], steps: false },
};

const paused = (step: number): Notification => ({
  event: 'state',
  params: { phase: 'paused', step },
});
const textOf = (notification: Notification, before: Partial<Before> = {}): string | undefined =>
  newsOf(notification, { ...kBefore, ...before }, () => undefined)?.text;

test('a pause is told for three seconds, and its asker can take it back', () => {
  const resume = vi.fn();
  const news = newsOf(paused(12), kBefore, resume);
  expect(news).toMatchObject({ text: 'Paused after step 12', seconds: 3 });
  expect(news?.action?.text).toBe('Undo');
  news?.action?.run();
  expect(resume).toHaveBeenCalledOnce();
  const ofAda = newsOf(paused(12), { ...kBefore, holder: kAda }, resume);
  expect(ofAda).toMatchObject({ text: 'Paused after step 12, by Ada' });
  expect(ofAda?.action).toBeUndefined();
});

test('a run that is paused already, and the end of a single step, are no news', () => {
  expect(textOf(paused(12), { phase: 'paused' })).toBeUndefined();
  expect(textOf(paused(12), { steps: true })).toBeUndefined();
  expect(textOf(paused(12), { phase: undefined })).toBeUndefined();
});

test('another plan is told with its step', () => {
  const plan = (number: number): Notification => ({
    event: 'plan',
    params: { plan: { number, entries: [] }, step: 13 },
  });
  expect(textOf(plan(2))).toBe('Plan 2 is in force from step 13 on');
  expect(textOf(plan(2), { holder: kAda })).toBe('Plan 2 is in force from step 13 on, by Ada');
  expect(textOf(plan(1))).toBeUndefined();
});

test('programs that come and go are told by name', () => {
  const programs = (reason: string, ...names: readonly string[]): Notification => ({
    event: 'interventions',
    params: { step: 13, reason, programs: names.map((name) => ({ name, since: 13 }) as Program) },
  });
  expect(textOf(programs('apply', 'steer'))).toBe('Program steer is in force from step 13 on');
  const ended = 'Program steer is no longer in force from step 13 on';
  expect(textOf(programs('remove'))).toBe(ended);
  expect(textOf(programs('remove'), { holder: kAda })).toBe(`${ended}, by Ada`);
  expect(textOf(programs('expired'))).toBe(`${ended}: the set number of steps is over`);
  expect(newsOf(programs('lease'), kBefore, () => undefined)?.tone).toBe('warn');
  expect(newsOf(programs('failed'), kBefore, () => undefined)?.tone).toBe('bad');
  expect(textOf(programs('set', 'steer'))).toBeUndefined();
  expect(textOf(programs('remove'), { programs: [] })).toBeUndefined();
});

test('a take-over is told to who lost control, to who took it and to the others', () => {
  const control = (holder: typeof kAda | null): Notification => ({
    event: 'control',
    params: { holder },
  });
  expect(newsOf(control(kAda), kBefore, () => undefined)).toMatchObject({
    text: 'Ada took over control',
    tone: 'warn',
  });
  expect(textOf(control(kMe), { holder: kAda })).toBe('You took over control from Ada');
  const bob = { session: 'v3', name: 'Bob' };
  expect(textOf(control(bob), { holder: kAda })).toBe('Bob took over control from Ada');
  expect(textOf(control(kAda), { holder: null })).toBeUndefined();
  expect(textOf(control(null))).toBeUndefined();
});
