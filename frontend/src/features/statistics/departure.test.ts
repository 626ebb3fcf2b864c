import { expect, test } from 'vitest';
import { firstDeparture, kDepartureTimes, kDepartureWindow } from './departure';

const kSteps = Array.from({ length: 12 }, (_, i) => 10 * (i + 1));
const kCalm = kSteps.map(() => 2);
const kNone = kSteps.map(() => 0);

function at<T>(line: readonly T[], index: number, value: T): T[] {
  return line.map((each, i) => (i === index ? value : each));
}

test('calm layers stay in their range', () => {
  const lines = { rms: [kCalm, kCalm], bad: [kNone, kNone] };
  expect(firstDeparture({ layers: [1, 2], steps: kSteps, ...lines })).toBeNull();
});

test('the earliest step counts, whatever the layer and the reason', () => {
  const rms = [kCalm, at(kCalm, 8, 2 * kDepartureTimes + 1), kCalm];
  const late = { layers: [1, 2, 3], steps: kSteps, rms, bad: [kNone, kNone, at(kNone, 9, 3)] };
  const times = (2 * kDepartureTimes + 1) / 2;
  expect(firstDeparture(late)).toEqual({ layer: 2, step: 90, bad: 0, times });
  const early = { ...late, bad: [kNone, kNone, at(kNone, 7, 3)] };
  expect(firstDeparture(early)).toEqual({ layer: 3, step: 80, bad: 3, times: 0 });
});

test('at the same step the lowest layer is named', () => {
  const bad = [kNone, at(kNone, 4, 1), at(kNone, 4, 9)];
  const lines = { rms: [kCalm, kCalm, kCalm], bad };
  expect(firstDeparture({ layers: [4, 5, 6], steps: kSteps, ...lines })?.layer).toBe(5);
});

test('exactly so many times the median is no departure, and few rmss make no median', () => {
  const layers = [1];
  const limit = { rms: [at(kCalm, 8, 2 * kDepartureTimes)], bad: [kNone] };
  expect(firstDeparture({ layers, steps: kSteps, ...limit })).toBeNull();
  const soon = { rms: [at(kCalm, 4, 1000)], bad: [kNone] };
  expect(firstDeparture({ layers, steps: kSteps, ...soon })).toBeNull();
});

test('the median is of the steps just before: a slow rise is no departure', () => {
  const steps = Array.from({ length: 10 * kDepartureWindow }, (_, i) => i);
  const rising = steps.map((step) => 1.02 ** step);
  expect(
    firstDeparture({ layers: [1], steps, rms: [rising], bad: [steps.map(() => 0)] }),
  ).toBeNull();
});

test('gaps are no rmss', () => {
  const gappy = kCalm.map((value, i) => (i % 2 === 0 ? null : value));
  const rms = [at<number | null>(gappy, 11, 100)];
  const found = firstDeparture({ layers: [1], steps: kSteps, rms, bad: [kNone] });
  expect(found).toMatchObject({ step: 120, times: 50 });
});
