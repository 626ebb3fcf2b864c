import { beforeEach, expect, test } from 'vitest';
import type { RecordHeader } from '../../protocol/record';
import { makeRecord } from '../store/test_records';
import { Leaders } from './leaders';

let leaders: Leaders;

function header(change: Partial<RecordHeader>): RecordHeader {
  return makeRecord(change).header;
}

function takeAll(headers: readonly RecordHeader[], now: number): void {
  for (const each of headers) leaders.take(each, now);
}

beforeEach(() => {
  leaders = new Leaders();
  leaders.begin(40);
});

test('each rank that sends is one, in the order of stages and replicas', () => {
  takeAll([{ pipelineRank: 1 }, {}, { dataRank: 1 }, {}].map(header), 0);
  expect(leaders.all.map(({ pipeline, data, tensor }) => [pipeline, data, tensor])).toEqual([
    [0, 0, 0],
    [0, 1, 0],
    [1, 0, 0],
  ]);
});

test('its newest step, what lies between two, and how long the newest record took', () => {
  const at = (step: number): RecordHeader => header({ step, time: step * 1e9 });
  takeAll([at(45)], 45_010);
  takeAll([at(50), at(50)], 50_030);
  takeAll([at(45)], 99_000);
  expect(leaders.all).toMatchObject([{ step: 50, spacing: 5, delayMs: 30 }]);
});

test('its spacing is known from two steps of a plan on, and by the closest of them', () => {
  const spacings = [
    { step: 41 },
    { step: 42 },
    { step: 90 },
    { step: 95, plan: 2 },
    { step: 105, plan: 2 },
  ].map((change) => {
    takeAll([header(change)], 0);
    return leaders.all[0].spacing;
  });
  expect(spacings).toEqual([null, 1, 1, null, 10]);
});

test('a gap in its sequence is what was missed; what comes late closes it', () => {
  takeAll(
    [7, 8, 11].map((sequence) => header({ step: 42, sequence })),
    0,
  );
  takeAll([header({ step: 42, sequence: 3, pipelineRank: 1 })], 0);
  expect(leaders.all.map(({ missed }) => missed)).toEqual([2, 0]);
  takeAll([header({ step: 42, sequence: 9 })], 0);
  expect(leaders.all[0].missed).toBe(1);
});

test('what was made before the page came does not tell how long records take', () => {
  takeAll([header({ step: 41, time: 1e9 })], 90_000);
  expect(leaders.all[0].delayMs).toBeNull();
  takeAll([header({ step: 42, time: 90_000e6 })], 90_020);
  expect(leaders.all[0].delayMs).toBe(20);
});

test('a rank that the newest plan asks nothing of is gone, until it sends by that plan', () => {
  const of = (pipelineRank: number, plan: number, step: number): RecordHeader =>
    header({ pipelineRank, plan, step, sequence: step });
  const stages = (): number[] => leaders.all.map(({ pipeline }) => pipeline);
  takeAll([of(0, 1, 50), of(1, 1, 50), of(0, 2, 51)], 0);
  expect(stages()).toEqual([0]);
  takeAll([of(1, 1, 51), of(0, 1, 50)], 0);
  expect([stages(), leaders.all[0].step]).toEqual([[0], 51]);
  takeAll([of(1, 2, 52)], 0);
  expect(stages()).toEqual([0, 1]);
});

test('a new run begins anew', () => {
  takeAll([header({ step: 60, plan: 7 })], 0);
  leaders.clear();
  takeAll(
    [1, 3].map((sequence) => header({ step: 1, plan: 1, sequence })),
    5,
  );
  expect(leaders.all).toMatchObject([{ step: 1, spacing: null, delayMs: 5, missed: 1 }]);
});

test('a record that comes twice is not fewer than none missed', () => {
  takeAll(
    [7, 7, 7].map((sequence) => header({ step: 42, sequence })),
    0,
  );
  expect(leaders.all[0].missed).toBe(0);
});

test('gaps in the past that a late viewer is sent are not counted as missed', () => {
  takeAll(
    [1, 90, 300].map((sequence) => header({ step: 41, sequence })),
    0,
  );
  expect(leaders.all[0].missed).toBe(0);
  takeAll([header({ step: 42, sequence: 301 }), header({ step: 42, sequence: 303 })], 0);
  expect(leaders.all[0].missed).toBe(1);
  leaders.begin(60);
  expect(leaders.all[0].missed).toBe(0);
});
