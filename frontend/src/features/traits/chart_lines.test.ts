import { describe, expect, test } from 'vitest';
import { kTestQuery } from '../../core/store/test_query';
import type { AlarmFacts } from '../../protocol/alarms';
import { type ChartAsk, chartOf, type TraitChart } from './chart_lines';
import { traitsOf } from './trait_series';

const kUnknown: ChartAsk['baselines'] = { of: () => null };

/** Two layers at three steps, on two vectors. */
const kFrame: ChartAsk['frame'] = {
  layers: [1, 2],
  layer: 2,
  query: { ...kTestQuery, pointName: 'HiddenStates' },
  overSteps: {
    steps: [10, 20, 30],
    absent: new Uint8Array(6),
    mean: Float32Array.of(0, 0, 0, 1, 2, 4, 0, 0, 0, 10, 20, 40),
    last: new Float32Array(12),
  },
};

function chart(change: Partial<ChartAsk> = {}): TraitChart {
  return chartOf({
    frame: kFrame,
    traits: traitsOf(2, ['evil', 'kind']),
    other: null,
    over: 'mean',
    isDifference: false,
    alarms: [],
    entry: { point: 'HiddenStates' },
    baselines: kUnknown,
    sets: [],
    events: [],
    isWhole: true,
    ...change,
  });
}

function alarm(change: Partial<AlarmFacts>): AlarmFacts {
  const about = { name: 'drift', point: 'HiddenStates', vector: 'evil', test: 'above' };
  return { ...about, state: 'quiet', fires: 0, ...change };
}

test('one line for each trait, of the chosen layer', () => {
  const { steps, values, styles } = chart();
  expect(steps).toEqual([10, 20, 30]);
  expect(values).toEqual([
    [1, 2, 4],
    [10, 20, 40],
  ]);
  expect(styles.map(({ label, kind }) => [label, kind])).toEqual([
    ['evil', 'bold'],
    ['kind', 'bold'],
  ]);
  expect(chart({ isDifference: true }).values[1]).toEqual([0, 10, 30]);
});

test('the run beside: the traits of the same name, thin, in the same colours', () => {
  const overSteps = { ...kFrame.overSteps, steps: [15, 25, 35] };
  const frame = { ...kFrame, layers: [2, 3], overSteps };
  const other = { frame, name: 'calm', traits: traitsOf(2, ['kind', 'other']) };
  const { steps, values, styles } = chart({ other });
  expect(steps).toEqual([10, 20, 30, 35]);
  expect(values[0]).toEqual([1, 2, 4, null]);
  expect(styles[2]).toEqual({ label: 'kind, calm', color: styles[1].color, kind: 'thin' });
  // Layer 2 is the first row there, and its vector 0 is the trait; between its steps it is interpolated.
  expect(values[2]).toEqual([null, 0, 0, 0]);
  expect(values).toHaveLength(3);
});

test('limits of alarms are dashed lines in the colour of the trait', () => {
  const alarms = [
    alarm({ value: 3 }),
    alarm({ name: 'band', vector: 'kind', test: 'range', low: 5, high: 50 }),
    alarm({ name: 'elsewhere', layers: '1', value: 3 }),
    alarm({ name: 'slope', test: 'rising', value: 1, window: 5 }),
  ];
  const { values, styles, unlimited } = chart({ alarms });
  expect(styles.slice(2).map(({ label, kind }) => [label, kind])).toEqual([
    ['limit of drift', 'dashed'],
    ['limit of band', 'dashed'],
    ['limit of band', 'dashed'],
  ]);
  expect(styles[2].color).toBe(styles[0].color);
  expect(values.slice(2)).toEqual([
    [3, 3, 3],
    [5, 5, 5],
    [50, 50, 50],
  ]);
  expect(unlimited).toEqual(['slope']);
  // In the difference to the first step, a limit moves with its curve.
  expect(chart({ alarms, isDifference: true }).values[2]).toEqual([2, 2, 2]);
});

test('a baseline counts the values after the alarm was set', () => {
  const alarms = [alarm({ test: 'sigma', k: 1, first: 2, side: 'above' })];
  const far = Math.SQRT1_2;
  expect(chart({ alarms }).values[2][0]).toBeCloseTo(1.5 + far, 6);
  const events = [{ step: 10, what: 'alarm/set/0/drift' }];
  expect(chart({ alarms, events }).values[2][0]).toBeCloseTo(3 + 2 * far, 6);
  expect(chart({ alarms, isWhole: false }).unlimited).toEqual(['drift']);
});

describe('means over prompts', () => {
  const kMeans = {
    frame: { ...kFrame, query: { ...kFrame.query, promptSet: 1 } },
    sets: [{ name: 'probes', interval: 1, prompts: ['a'] }],
    entry: { point: 'HiddenStates', prompts: 'probes', mean_over: 'response' },
    // The curve of `last` is the same: the records have one number for each prompt.
    over: 'last' as const,
  };
  const about = { prompts: 'probes', value: 2.5 };
  const from = { ...about, mean_over: 'response', baseline: true };

  test('a limit from the start of the run is drawn above the baseline of its layer and vector', () => {
    const asked: unknown[] = [];
    const baselines: ChartAsk['baselines'] = {
      of: ({ mean_over: mean }, vector, layer) => {
        asked.push([mean, vector, layer]);
        return vector === 'kind' ? { mean: 20, deviation: null } : null;
      },
    };
    const alarms = [alarm({ ...from, vector: 'kind' })];
    const { values } = chart({ ...kMeans, alarms, baselines });
    expect(values[2]).toEqual([22.5, 22.5, 22.5]);
    expect(asked).toContainEqual(['response', 'kind', 2]);
  });

  test('without a known baseline the alarm has no limit', () => {
    const { values, unlimited } = chart({ ...kMeans, alarms: [alarm(from)] });
    expect(values).toHaveLength(2);
    expect(unlimited).toEqual(['drift']);
  });

  test('alarms on other means, or on tokens, are not on the curve', () => {
    const others = [
      alarm({ ...about, mean_over: 'last-prompt' }),
      alarm(about),
      alarm({ ...about, over: 'last' }),
    ];
    const { values, unlimited } = chart({ ...kMeans, alarms: others });
    expect([values.length, unlimited]).toEqual([2, []]);
  });
});
