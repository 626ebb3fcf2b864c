import { describe, expect, test } from 'vitest';
import type { CompressorFacts, Plan, PointFacts } from '../../protocol/messages';
import { placeOf, planOf } from './plan_form';
import type { PlanRow } from '../../core/registry/plan_feature';
import {
  dtypeChoices,
  fitRow,
  hasLayers,
  kindChoices,
  newRow,
  rowsOf,
  summaryOf,
} from './plan_row';

const kLayered = { first_layer: 1, last_layer: 4, features: 256, text: '' };
const kDims = ['batch', 'sequence', 'features'];
const kPoints: readonly PointFacts[] = [
  { ...kLayered, name: 'HiddenStates', flag: 7, dims: kDims, gradient_placement: {} },
  { ...kLayered, name: 'InputTokens', flag: 8, dims: kDims, last_layer: 0, features: 0 },
  { ...kLayered, name: 'RawAttentionScore', flag: 2, dims: ['batch', 'heads', ...kDims] },
  { ...kLayered, name: 'Logits', flag: 23, compressor: 'topk', dims: kDims, last_layer: 0 },
];
const [kHidden, kTokens, kAttention, kLogits] = kPoints;
const kRun = { vectors: ['evil', 'kind'] };

/** A plan after it went through the form. */
function through(entries: readonly object[]): unknown {
  const made = planOf(rowsOf({ number: 3, entries } as Plan, kPoints), kPoints);
  if (!made.ok) throw new Error(`${made.field}: ${made.message}`);
  return JSON.parse(JSON.stringify(made.plan.entries));
}

function changed(change: Partial<PlanRow>): ReturnType<typeof planOf> {
  return planOf([newRow(kHidden), { ...newRow(kHidden), ...change }], kPoints);
}

/** With members that this version does not know. */
const later = (compressor: object): CompressorFacts => compressor as CompressorFacts;

describe('a plan goes through the form', () => {
  const common = { point: 'HiddenStates', every: 1, dtype: 'f32' };

  test('an entry that is off stays off, and says so', () => {
    const entries = [{ point: 'HiddenStates', enabled: false, compressor: { kind: 'empty' } }];
    expect(through(entries)).toEqual([{ ...common, ...entries[0] }]);
    const [row] = rowsOf({ number: 3, entries }, kPoints);
    expect(summaryOf(row)).toBe('off');
    row.enabled = true;
    expect(planOf([row], kPoints)).not.toMatchObject({ plan: { entries: [{ enabled: false }] } });
  });

  test('with every member that the form has', () => {
    const entries = [
      {
        point: 'HiddenStates',
        layers: '1-4',
        every: 5,
        phases: ['train', 'eval'],
        micro_batches: '0-3',
        rows: 2,
        tokens: [0, 64],
        compressor: { kind: 'tile', tiles: 64, method: 'absmax' },
        dtype: 'bf16',
      },
      { ...common, direction: 'gradient', rows: [2, 4], compressor: { kind: 'none' } },
      { ...common, prompts: 'probes', rows: 0, compressor: { kind: 'empty' } },
      { ...common, compressor: { kind: 'stats', range: [-4, 4], bins: 16 } },
      { ...common, compressor: { kind: 'projection', vectors: ['evil'], normalize: false } },
      { ...common, compressor: { kind: 'projection', vectors: ['evil'], cosine: true } },
      { ...common, compressor: { kind: 'topk', k: 3 } },
      { ...common, compressor: { kind: 'outliers', k: 3 } },
      { ...common, compressor: { kind: 'tile', tiles: 8, tiles_one_rank: 16, data_dims: 4 } },
      { ...common, phases: ['eval'], eval_forwards: 'all', compressor: { kind: 'none' } },
      { ...common, compressor: later({ kind: 'projection', vectors: ['evil'], layer_base: 1 }) },
      { ...common, compressor: later({ kind: 'of a later version', window: [3], k: 5 }) },
      { point: 'InputTokens', every: 1, compressor: { kind: 'none' } },
      { point: 'InputTokens', every: 1, compressor: { kind: 'none' }, dtype: 'i64' },
    ];
    expect(through(entries)).toEqual(entries);
  });

  test('without what is the default', () => {
    const entry = {
      ...common,
      direction: 'value',
      phases: ['train'],
      micro_batches: '0',
      rows: 1,
      compressor: { kind: 'tile', tiles: 4, method: 'mean' },
    };
    expect(through([entry])).toEqual([{ ...common, compressor: { kind: 'tile', tiles: 4 } }]);
    // For a histogram without a range, the trainer writes 48 bins, and would refuse another number.
    const stats = { ...common, compressor: { kind: 'stats', bins: 48 } };
    expect(through([stats])).toEqual([{ ...common, compressor: { kind: 'stats' } }]);
    expect(rowsOf({ number: 3, entries: [stats] }, kPoints)[0].bins).toBe('');
    expect(through([{ point: 'Logits' }])).toMatchObject([{ compressor: { kind: 'topk' } }]);
  });

  test('no layers means all, no tiles the default', () => {
    const made = planOf([{ ...newRow(kHidden), tiles: '', layers: ' ' }], kPoints);
    expect(made.ok && made.plan.entries).toEqual([{ ...common, compressor: { kind: 'tile' } }]);
  });
});

test('what cannot be read is caught before it is sent, with its place', () => {
  const wrong: readonly (readonly [string, Partial<PlanRow>])[] = [
    ['layers', { layers: '4-1' }],
    ['every', { every: '' }],
    ['phases', { train: false }],
    ['micro_batches', { microBatches: 'all' }],
    ['rows', { rows: '4:2' }],
    ['tokens', { tokens: '64' }],
    ['tiles', { tiles: '0' }],
    ['k', { kind: 'topk', k: '-1' }],
    ['vectors', { kind: 'projection', vectors: [] }],
    ['range', { kind: 'stats', range: '4:-4' }],
    ['range', { kind: 'stats', range: ':4' }],
    ['bins', { kind: 'stats', range: '-4:4', bins: '0' }],
  ];
  for (const [field, change] of wrong) {
    expect(changed(change)).toMatchObject({ ok: false, row: 1, field });
  }
  // Members that the compressor does not use are not checked.
  expect(changed({ kind: 'none', tiles: '0', k: 'x' })).toMatchObject({ ok: true });
  expect(changed({ prompts: 'probes', train: false })).toMatchObject({ ok: true });
});

test('an error of the trainer is put to its entry and member', () => {
  expect(placeOf('plan.entries[2].compressor.tiles')).toEqual({ row: 2, field: 'tiles' });
  expect(placeOf('plan.entries[0].compressor')).toEqual({ row: 0, field: 'compressor' });
  expect(placeOf('plan.entries[11].rows')).toEqual({ row: 11, field: 'rows' });
  expect(placeOf('plan.entries[1]')).toEqual({ row: 1, field: '' });
  expect(placeOf('plan.entries[1].compressor.vectors: evil.npy')).toEqual({
    row: 1,
    field: 'vectors',
  });
  expect(placeOf('plan.entries')).toBeNull();
  expect(placeOf(undefined)).toBeNull();
});

describe('what a point allows', () => {
  test('compressors', () => {
    const some = ['none', 'tile', 'empty', 'stats', 'projection', 'topk', 'outliers'];
    expect(kindChoices(kHidden, kRun)).toEqual(expect.arrayContaining(some));
    expect(kindChoices({ ...kHidden, parameters: ['a'] }, kRun)).toEqual(['none', 'empty']);
    expect(kindChoices(kHidden, { vectors: [] })).not.toContain('projection');
    expect(kindChoices(kAttention, kRun)).toEqual(['none', 'tile', 'empty', 'stats']);
    expect(kindChoices(kTokens, kRun)).toEqual(['none', 'empty']);
  });

  test('dtypes: counts and columns need all bits', () => {
    expect(dtypeChoices('tile', kHidden)).toEqual(['f32', 'f64', 'bf16', 'f16', 'u8']);
    expect(dtypeChoices('stats', kHidden)).toEqual(['f32', 'f64']);
    expect(dtypeChoices('topk', kLogits)).toEqual(['f32', 'f64']);
    expect(dtypeChoices('outliers', kHidden)).toEqual(['f32', 'f64']);
    expect(dtypeChoices('none', kTokens)).toEqual(['i32', 'i64']);
  });

  test('a row is made to fit what was chosen', () => {
    const row = { ...newRow(kHidden), direction: 'gradient' as const, dtype: 'u8', layers: '1' };
    fitRow({ ...row }, kHidden, kRun);
    const fit = (change: Partial<PlanRow>, point: PointFacts): PlanRow => {
      const made: PlanRow = { ...row, ...change };
      fitRow(made, point, kRun);
      return made;
    };
    expect(fit({}, kHidden)).toMatchObject({ direction: 'gradient', layers: '1', dtype: 'u8' });
    expect(fit({}, kAttention).direction).toBe('value');
    expect(fit({}, kTokens)).toMatchObject({ kind: 'none', dtype: 'i32', layers: '' });
    expect(fit({ kind: 'stats' }, kHidden).dtype).toBe('f32');
    expect(fit({ kind: 'projection' }, kHidden).vectors).toEqual(['evil', 'kind']);
    expect(fit({ prompts: 'probes', evaluation: true, train: false }, kHidden)).toMatchObject({
      prompts: '',
      evaluation: false,
      train: true,
    });
    expect(hasLayers(kLogits)).toBe(false);
  });
});

test('what a closed entry does not show is summed up', () => {
  const row = newRow(kHidden);
  expect(summaryOf(row)).toBe('');
  expect(summaryOf({ ...row, rows: '1', microBatches: '0' })).toBe('');
  expect(summaryOf({ ...row, direction: 'gradient', tokens: '0:8', dtype: 'u8' })).toBe(
    'gradient · tokens 0:8 · u8',
  );
  expect(
    summaryOf({ ...row, kind: 'projection', vectors: ['evil'], prompts: 'probes', rows: '0' }),
  ).toBe('probes · all rows · evil');
  expect(summaryOf({ ...row, kind: 'projection', vectors: ['evil'], cosine: true })).toBe(
    'evil · cosine',
  );
  expect(summaryOf({ ...row, evaluation: true, microBatches: '0-3', rows: '2:4' })).toBe(
    'train + eval · micro-batches 0-3 · rows 2:4',
  );
  expect(summaryOf({ ...row, evaluation: true, train: false })).toBe('eval');
});
