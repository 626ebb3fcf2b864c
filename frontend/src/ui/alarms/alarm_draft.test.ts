import { expect, test } from 'vitest';
import type { WatchedEntry } from '../../core/session/watched';
import type { ViewQuery } from '../../core/store/frames';
import type { PlanEntry } from '../../protocol/messages';
import { kTypedPrompt } from '../../protocol/prompts';
import {
  type AlarmCurve,
  type AlarmNumber,
  curveOfRecords,
  curvesOf,
  draftFrom,
  draftOf,
  nameOf,
  paramsOf,
  withBaseline,
  withCurve,
} from './alarm_draft';

const kSets = [
  { name: 'x', interval: 1, prompts: ['a'], removed: true },
  { name: 'probes', interval: 1, prompts: ['b'] },
];

test('a draft asks for what its test needs and for nothing else', () => {
  const draft = draftOf({ scalar: 'loss' });
  expect(paramsOf(draft)).toEqual({
    name: 'loss sigma',
    scalar: 'loss',
    test: 'sigma',
    k: 6,
    window: 100,
  });
  const numbers = { ...draft.numbers, value: ' 5e-3 ' };
  expect(paramsOf({ ...draft, name: ' high ', test: 'above', numbers })).toEqual({
    ...{ name: 'high', scalar: 'loss', test: 'above', value: 0.005 },
  });
  const first = { ...draft, first: true, side: 'above' as const, consecutive: '3', pause: true };
  expect(paramsOf(first)).toMatchObject({ first: 100, side: 'above', consecutive: 3, pause: true });
  expect(paramsOf(first)).not.toHaveProperty('window');
});

test('a number that was not typed is left out: the hub names what is missing', () => {
  expect(paramsOf({ ...draftOf({ scalar: 'lr' }), test: 'above' })).not.toHaveProperty('value');
});

test('an alarm that is shown again is asked for as it is', () => {
  for (const rule of [
    { name: 'a', scalar: 'loss', test: 'rising', value: 0.25, window: 20 },
    { name: 'b', point: 'MLP1', statistic: 'rms', layers: '1-4', test: 'range', low: 0, high: 2 },
    {
      name: 'c',
      point: 'MLP1',
      vector: 'evil',
      over: 'last',
      test: 'sigma',
      k: 4,
      first: 50,
      side: 'below',
    },
    {
      ...{ name: 'e', point: 'Updates', statistic: 'value', column: 'update_ratio' },
      ...{ parameter: 'layers[1].norm', over: 'largest', test: 'nonfinite' },
    },
    {
      ...{ name: 'f', point: 'HiddenStates', vector: 'evil', prompts: 'probes' },
      ...{ mean_over: 'last-prompt', baseline: true, test: 'sigma', k: 1 },
    },
    { name: 'd', scalar: 'loss', test: 'nonfinite', consecutive: 2, pause: true },
  ]) {
    expect(paramsOf(draftFrom(rule))).toEqual(rule);
  }
});

test('an alarm on values is named by its column, point and parameter', () => {
  const curve = { point: 'Updates', statistic: 'value', column: 'update_ratio', parameter: 'norm' };
  expect(nameOf(draftOf(curve))).toBe('column update_ratio Updates norm sigma');
  expect(nameOf(draftOf({ point: 'MLP1', statistic: 'value' }))).toBe('MLP1 sigma');
});

test('the plan gives a curve for statistics and one for each vector', () => {
  const base: WatchedEntry = {
    ...{ name: 'MLP1', entry: 0, enabled: true, every: 1, layers: [1], phases: ['train'] },
    ...{ direction: 0, promptSet: 0, prompts: [], lengths: [], form: 'values', firstToken: 0 },
    ...{ meanOver: '', hasResponses: false },
    compressor: { kind: 'tile' },
    facts: {
      ...{ name: 'MLP1', flag: 4, first_layer: 1, last_layer: 1 },
      dims: [],
      features: 4,
      text: '',
    },
  } as unknown as WatchedEntry;
  const entry = (members: Partial<WatchedEntry>): WatchedEntry => ({ ...base, ...members });
  const curves = curvesOf(
    [
      entry({ compressor: { ...base.compressor, kind: 'stats' }, direction: 1 }),
      entry({
        compressor: { ...base.compressor, kind: 'projection', vectors: ['a', 'b'] },
        promptSet: 2,
        phases: [],
      }),
      entry({ compressor: { ...base.compressor, kind: 'stats' }, phases: ['eval'] }),
      base,
      entry({ compressor: { ...base.compressor, kind: 'stats' }, enabled: false }),
      entry({ compressor: { ...base.compressor, kind: 'none' } }),
      entry({ compressor: { ...base.compressor, kind: 'topk' } }),
      entry({
        compressor: { ...base.compressor, kind: 'topk' },
        facts: { ...base.facts, name: 'LogitLens', compressor: 'topk' },
      }),
    ],
    kSets,
  );
  const probes = { point: 'MLP1', prompts: 'probes' };
  expect(curves).toEqual([
    { point: 'MLP1', statistic: 'rms', direction: 'gradient' },
    { ...probes, vector: 'a' },
    { ...probes, vector: 'b' },
    { point: 'MLP1', statistic: 'rms', phase: 'eval' },
    { point: 'MLP1', statistic: 'value' },
    { point: 'LogitLens', statistic: 'loss' },
  ]);
});

test('the records of a frame give the curve of its layer, and those of a typed prompt give none', () => {
  const frame = (query: object, layer = 0): { layer: number; query: ViewQuery } =>
    ({
      layer,
      query: { pointName: 'MLP1', direction: 0, phase: 0, promptSet: 0, ...query },
    }) as never;
  const number = { statistic: 'rms' };
  const curveOf = (query: object, layer?: number): AlarmCurve | undefined =>
    curveOfRecords(number, frame(query, layer), kSets, undefined);
  expect(curveOf({}, 3)).toEqual({ ...number, point: 'MLP1', layers: '3' });
  expect(curveOf({ direction: 1 })).toEqual({ ...number, point: 'MLP1', direction: 'gradient' });
  expect(curveOf({ phase: 1 })).toEqual({ ...number, point: 'MLP1', phase: 'eval' });
  expect(curveOf({ phase: 1, promptSet: 2 })).toEqual({
    ...{ ...number, point: 'MLP1', prompts: 'probes' },
  });
  expect(curveOf({ promptSet: kTypedPrompt.on })).toBeUndefined();
});

test('the curve of an entry with means is that of its means, and has no choice of tokens', () => {
  const query = { pointName: 'MLP1', direction: 0, phase: 1, promptSet: 2 };
  const curveOf = (number: AlarmNumber, entry: Partial<PlanEntry>): AlarmCurve | undefined =>
    curveOfRecords(number, { layer: 3, query } as never, kSets, { point: 'MLP1', ...entry });
  const evil = { vector: 'evil', over: 'last' };
  const common = { point: 'MLP1', vector: 'evil', prompts: 'probes', layers: '3' };
  const responses = { mean_over: 'response', responses: true };
  expect(curveOf(evil, responses)).toEqual({ ...common, mean_over: 'response' });
  expect(curveOf(evil, {})).toEqual({ ...common, over: 'last' });
  // The hub has no alarm on these records.
  expect(curveOf(evil, { responses: true })).toBeUndefined();
  expect(curveOf({ statistic: 'rms' }, responses)).toBeUndefined();
});

test('an alarm against the start of the run begins with two deviations', () => {
  const mean = { point: 'MLP1', vector: 'evil', prompts: 'probes', mean_over: 'response' };
  const draft = draftOf(mean);
  expect(paramsOf(draft)).toMatchObject({ k: 6, window: 100 });
  const from = withBaseline(draft, true);
  expect(paramsOf(from)).toEqual({
    ...{ ...mean, name: nameOf(draft), baseline: true, test: 'sigma', k: 2 },
  });
  expect(withBaseline(from, false)).toEqual(draft);
  // A number that the user typed stays.
  const typed = { ...draft, numbers: { ...draft.numbers, k: '3' } };
  expect(withBaseline(typed, true).numbers.k).toBe('3');
  expect(draftFrom({ ...mean, name: 'a', baseline: true, test: 'above', value: 1 }).numbers.k).toBe(
    '2',
  );
});

test('another curve keeps the comparison with the start only if it has means', () => {
  const mean = { point: 'MLP1', vector: 'evil', prompts: 'probes', mean_over: 'response' };
  const from = withBaseline(draftOf(mean), true);
  const other = { ...mean, mean_over: 'prompt' };
  expect(withCurve(from, other)).toEqual({ ...from, curve: other });
  expect(withCurve(from, { scalar: 'loss' })).toEqual(draftOf({ scalar: 'loss' }));
});
