import { expect, test } from 'vitest';
import type { CompressorFacts, Plan, PlanEntry, PointFacts } from '../../protocol/messages';
import { planOf } from './plan_form';
import type { PlanRow } from '../../core/registry/plan_feature';
import { rowsOf } from './plan_row';
import { kMaxDrafts } from '../../core/session/url_state';
import { formatDraft, parseDraft } from './plan_text';

const kDims = ['batch', 'sequence', 'features'];
const kPoints: readonly PointFacts[] = [
  {
    ...{ name: 'HiddenStates', flag: 7, dims: kDims, features: 256, text: '' },
    ...{ first_layer: 1, last_layer: 4, gradient_placement: {} },
  },
  {
    ...{ name: 'InputTokens', flag: 8, dims: kDims, features: 0, text: '' },
    ...{ first_layer: 0, last_layer: 0 },
  },
];

function rows(...entries: PlanEntry[]): PlanRow[] {
  const plan: Plan = { number: 1, entries };
  return rowsOf(plan, kPoints);
}

const kEverything: readonly PlanEntry[] = [
  {
    point: 'HiddenStates',
    enabled: false,
    layers: '1-2,4',
    every: 5,
    phases: ['train', 'eval'],
    micro_batches: '0-3',
    rows: [2, 4],
    tokens: [0, 64],
    compressor: { kind: 'tile', tiles: 32, method: 'absmax' },
    dtype: 'bf16',
  },
  {
    point: 'HiddenStates',
    compressor: {
      kind: 'tile',
      method: '(data.abs() > 3_0 * data.std(dim=-1)).float()\n  .mean(dim=-1)  # é~!*',
      tiles_one_rank: 16,
      method_one_rank: 'sum',
      data_dims: 4,
    },
  },
  { point: 'HiddenStates', direction: 'gradient', compressor: { kind: 'stats', range: [-4, 4] } },
  { point: 'HiddenStates', compressor: { kind: 'stats', range: [-4, 4], bins: 16 } },
  {
    point: 'HiddenStates',
    compressor: { kind: 'of a later version', window: [3] } as object as CompressorFacts,
  },
  {
    point: 'HiddenStates',
    prompts: 'probes *.1_%',
    rows: 0,
    compressor: { kind: 'projection', vectors: ['evil.v2', 'kind_er'], normalize: false },
  },
  { point: 'HiddenStates', compressor: { kind: 'projection', vectors: ['evil'], cosine: true } },
  {
    point: 'HiddenStates',
    phases: ['eval'],
    eval_forwards: 'all',
    compressor: { kind: 'topk', k: 3 },
  },
  { point: 'InputTokens', compressor: { kind: 'none' }, dtype: 'i64' },
];

test('a draft with every member survives the address, and is the same plan', () => {
  const draft = rows(...kEverything);
  const text = formatDraft(draft);
  expect(parseDraft(text)).toEqual(draft);
  const through = planOf(parseDraft(text) ?? [], kPoints);
  expect(through).toEqual(planOf(draft, kPoints));
  expect(through.ok).toBe(true);
  // A query escapes no character of the text.
  expect(new URLSearchParams({ plan: text }).toString()).toBe(`plan=${text}`);
});

test('it is short, and short enough for the hub', () => {
  expect(
    formatDraft(
      rows(
        { point: 'HiddenStates', layers: '1-4', compressor: { kind: 'tile', tiles: 64 } },
        { point: 'HiddenStates', compressor: { kind: 'stats' } },
      ),
    ),
  ).toBe('HiddenStates.l1-4.t64*HiddenStates.kstats');
  const many = Array.from({ length: 64 }, () => kEverything[0]);
  expect(formatDraft(rows(...many)).length).toBeLessThan(kMaxDrafts);
});

test('what is half typed survives too', () => {
  const [row] = rows({ point: 'HiddenStates' });
  for (const change of [
    { layers: '4-' },
    { every: '' },
    { method: 'expression', expression: '' },
    { tokens: 'x*.y' },
    { train: false },
  ]) {
    const draft = [{ ...row, ...change }];
    expect(parseDraft(formatDraft(draft))).toEqual(draft);
  }
});

test('defaults in other words are the same text', () => {
  const [plain] = rows({ point: 'HiddenStates' });
  const [said] = rows({
    point: 'HiddenStates',
    direction: 'value',
    every: 1,
    phases: ['train'],
    micro_batches: '0',
    rows: 1,
    compressor: { kind: 'tile', method: 'mean' },
    dtype: 'f32',
  });
  expect(formatDraft([said])).toBe(formatDraft([plain]));
  // Members that only other compressors use do not count.
  expect(formatDraft([{ ...plain, k: '9', bins: '3', vectors: ['evil'] }])).toBe('HiddenStates');
});

test('a plan without entries is a draft; text that is no plan is not', () => {
  expect(parseDraft(formatDraft([]))).toEqual([]);
  expect(parseDraft('')).toBeNull();
  expect(parseDraft('HiddenStates.l_ZZ')).toBeNull();
  expect(parseDraft('HiddenStates.Tx.?9.mmode')).toEqual(rows({ point: 'HiddenStates' }));
});
