import { expect, test } from 'vitest';
import type { PlanEntry, PointFacts } from '../../protocol/messages';
import { missingRows as missing } from './plan_merge';
import { rowsOf } from './plan_row';

const rows = (...entries: PlanEntry[]): ReturnType<typeof rowsOf> =>
  rowsOf({ number: 0, entries }, []);
const missingRows = (
  there: ReturnType<typeof rowsOf>,
  added: ReturnType<typeof rowsOf>,
): ReturnType<typeof missing> => missing(there, added, [kPoint]);
const kPoint: PointFacts = {
  ...{ name: 'HiddenStates', flag: 7, first_layer: 1, last_layer: 4, features: 8 },
  ...{ dims: [], text: '' },
};
const kStates: PlanEntry = {
  ...{ point: 'HiddenStates', direction: 'value', every: 2, rows: 1, micro_batches: '0' },
  ...{ phases: ['train'], dtype: 'f32', compressor: { kind: 'tile', tiles: 64, method: 'mean' } },
};
/** The entry as a preset writes it. */
const kPreset: PlanEntry = {
  point: 'HiddenStates',
  every: 2,
  compressor: { kind: 'tile', tiles: 64 },
};

test('what the plan takes is not added again', () => {
  expect(missingRows(rows(kStates), rows(kPreset))).toEqual([]);
  expect(missingRows(rows(kStates), rows({ ...kPreset, every: 10, layers: '2-3' }))).toEqual([]);
  expect(
    missingRows(rows({ ...kStates, layers: '1-4' }), rows({ ...kPreset, layers: '2' })),
  ).toEqual([]);
  expect(missingRows(rows({ ...kStates, layers: '1-4' }), rows(kPreset))).toEqual([]);
  const [tokens] = rows({ point: 'InputTokens' });
  expect(missingRows([tokens], [tokens])).toEqual([]);
});

test.each<[PlanEntry, PlanEntry]>([
  [kStates, { ...kPreset, every: 1 }],
  [{ ...kStates, layers: '1-3' }, kPreset],
  [
    { ...kStates, layers: '1-3' },
    { ...kPreset, layers: '3-4' },
  ],
  [{ ...kStates, enabled: false }, kPreset],
  [{ ...kStates, dtype: 'u8' }, kPreset],
  [kStates, { ...kPreset, phases: ['train', 'eval'] }],
  [kStates, { ...kPreset, rows: 0 }],
  [kStates, { ...kPreset, compressor: { kind: 'tile', tiles: 8 } }],
  [kStates, { ...kPreset, prompts: 'probes' }],
])('what it takes not wholly is added: %#', (there, added) => {
  expect(missingRows(rows(there), rows(added))).toEqual(rows(added));
});
