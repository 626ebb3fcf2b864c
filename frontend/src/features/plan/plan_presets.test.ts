import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { PlanEntry, PointFacts } from '../../protocol/messages';
import { parseLayers } from '../../protocol/layers';
import { planOf } from './plan_form';
import { dtypeChoices, fitRow, kindChoices, rowsOf } from './plan_row';
import type { Preset, PresetRun } from '../../core/registry/plan_feature';
import {
  presetsOf,
  readOwnPresets,
  rowsOfPreset,
  withOwnPreset,
  writeOwnPresets,
} from './plan_presets';

const kHidden = 256;
const kLine = ['batch', 'sequence', 'features'];

const kDerived = [
  ...['LogitLens', 'attention.entropy', 'attention.largest_score', 'attention.first_token_share'],
  ...['attention.contribution', 'mlp.contribution', 'mlp.contribution_ratio'],
];

/** The points as `tensor-tracer points --json` prints them: name, flag, features; in layers or not. */
function pointsOf(layers: number, widths: Readonly<Record<string, number>>): PointFacts[] {
  const point = (name: string, flag: number, inLayers: boolean): PointFacts => ({
    ...{ name, flag, text: '', dims: kLine, features: widths[name] ?? kHidden },
    ...{ first_layer: inLayers ? 1 : 0, last_layer: inLayers ? layers : 0 },
    gradient_placement: { tensor: 'replicate' },
  });
  const without = (facts: PointFacts, dims: readonly string[]): PointFacts => {
    return { ...facts, dims, gradient_placement: undefined };
  };
  return [
    without(point('InputTokens', 8, false), ['ids_positions', 'batch', 'sequence']),
    point('Embedding', 20, false),
    ...['QKV', 'Query', 'Key', 'Value'].map((name, i) => point(name, [1, 16, 17, 18][i], true)),
    without(point('RawAttentionScore', 2, true), ['batch', 'heads', 'sequence', 'keys']),
    ...['ContextLayer', 'AttentionOutput', 'ResidualMid', 'MLP1', 'MLPActivation'].map((name, i) =>
      point(name, [3, 6, 19, 4, 21][i], true),
    ),
    point('MLP2', 5, true),
    point('HiddenStates', 7, true),
    point('FinalNorm', 22, false),
    point('Logits', 23, false),
    ...kDerived.map((name, i) => ({
      ...without(point(name, 30 + i, true), kLine),
      ...{ features: name === 'LogitLens' ? kHidden : 4, formula: 'x' },
    })),
    {
      ...without(point('Updates', 50, false), ['step', 'parameters', 'features']),
      parameters: ['w'],
      formula: 'x',
    },
  ];
}

const kSets = [{ name: 'probes', interval: 50, prompts: ['Once upon'] }];
const kModel = { seq_length: 256 };
const kGpt2: PresetRun = {
  model: kModel,
  points: pointsOf(4, { InputTokens: 0, QKV: 768, MLP1: 1024, MLPActivation: 1024 }),
  prompt_sets: kSets,
  vectors: ['evil', 'kind'],
};
const kLlamaWidths = { QKV: 512, Key: 128, Value: 128, MLP1: 1376, MLPActivation: 688 };
const kLlama: PresetRun = {
  model: kModel,
  points: pointsOf(6, { InputTokens: 0, ...kLlamaWidths }),
  prompt_sets: [],
  vectors: [],
};
/** A run with fewer features and tokens than every preset asks for. */
const kTiny: PresetRun = {
  model: { seq_length: 32 },
  points: pointsOf(1, { InputTokens: 0, QKV: 6, MLP1: 8, HiddenStates: 2, Logits: 5, MLP2: 2 }),
  prompt_sets: [],
  vectors: [],
};

/** The errors for which the trainer would refuse an entry, by the rules of docs/protocol.md. */
function refusals(entry: PlanEntry, run: PresetRun): string[] {
  const point = run.points.find(({ name }) => name === entry.point);
  if (point === undefined) return [`no point ${entry.point}`];
  const {
    kind,
    tiles = 1,
    k = 1,
    vectors = [],
    columns = [],
  } = entry.compressor ?? { kind: 'none' };
  const layers = entry.layers === undefined ? [] : (parseLayers(entry.layers) ?? [-1]);
  const sets = run.prompt_sets.map(({ name }) => name);
  const wrong: readonly (readonly [string, boolean])[] = [
    ['gradient', entry.direction === 'gradient' && point.gradient_placement === undefined],
    ['gradient of an evaluation', entry.direction === 'gradient' && entry.prompts !== undefined],
    ['layers', layers.some((each) => each < point.first_layer || each > point.last_layer)],
    ['compressor', !kindChoices(point, run).includes(kind)],
    ['dtype', entry.dtype !== undefined && !dtypeChoices(kind, point).includes(entry.dtype)],
    ['tiles', kind === 'tile' && tiles > point.features],
    ['tokens', (entry.tokens?.[1] ?? 0) > run.model.seq_length],
    ['k', kind === 'topk' && k > point.features],
    ['columns', columns.some((each) => each >= point.features)],
    ['prompts', entry.prompts !== undefined && !sets.includes(entry.prompts)],
    ['width of vectors', kind === 'projection' && point.features !== kHidden],
    ['vectors', vectors.length > 32 || vectors.some((name) => !run.vectors.includes(name))],
  ];
  return wrong.filter(([, is]) => is).map(([what]) => `${entry.point}: ${what}`);
}

function named(run: PresetRun, name: string): Preset {
  const found = presetsOf(run).find((preset) => preset.name === name);
  if (found === undefined) throw new Error(`no preset ${name}`);
  return found;
}

test('the numbers of the field have presets; tokens go with what is shown by token alone', () => {
  const points = (name: string): string[] => named(kGpt2, name).entries.map(({ point }) => point);
  expect(points('Logit lens of the prompts')).toEqual(['LogitLens', 'InputTokens']);
  expect(points('Logit lens of the batch')).toEqual(['LogitLens', 'InputTokens']);
  expect(points('Attention health').slice(0, 3)).toEqual(kDerived.slice(1, 4));
  expect(points('Residual contributions')).toEqual([...kDerived.slice(4), 'InputTokens']);
  expect(points('Weights, gradients, updates')).toEqual(['Updates']);
  expect(points('Top activating tokens')).toEqual(['MLPActivation', 'HiddenStates']);
  const [lens] = named(kGpt2, 'Logit lens of the prompts').entries;
  expect(lens).toMatchObject({ prompts: 'probes', rows: 0, every: 10 });
});

describe('every preset is a plan that the trainer takes', () => {
  const many = { ...kGpt2, vectors: Array.from({ length: 40 }, (_, i) => `v${i}`) };
  const deep = { ...kGpt2, prompt_sets: Array.from({ length: 80 }, (_, i) => set(i)) };
  function set(index: number): PresetRun['prompt_sets'][number] {
    return { name: `s${index}`, interval: 1, prompts: ['x'] };
  }
  const shapes = { 'GPT-2': kGpt2, Llama: kLlama, tiny: kTiny, many, deep };
  test.each(Object.entries(shapes))('of a run of %s shape', (_, run) => {
    const presets = presetsOf(run);
    expect(presets.length).toBeGreaterThanOrEqual(6);
    for (const preset of presets) {
      expect(preset.entries.flatMap((entry) => refusals(entry, run))).toEqual([]);
      expect(preset.entries.length).toBeLessThanOrEqual(64);
      const rows = rowsOf({ number: 0, entries: preset.entries }, run.points);
      expect(planOf(rows, run.points)).toMatchObject({ ok: true });
      // The form shows the entry without a change.
      for (const row of rows) {
        const fitted = { ...row };
        fitRow(
          fitted,
          run.points.find(({ name }) => name === row.point),
          run,
        );
        expect(fitted).toEqual(row);
      }
    }
  });
});

test('values that are computed for the plan alone are no part of everything', () => {
  const lens = { ...kGpt2.points[1], name: 'LogitLens', formula: 'output_layer(…)' };
  const run = { ...kGpt2, points: [...kGpt2.points, { ...lens, gradient_placement: undefined }] };
  expect(named(run, 'Statistics of everything').entries).toHaveLength(15);
});

test('what the presets say is what they ask for', () => {
  expect(named(kLlama, 'Overview').entries).toEqual([
    { point: 'HiddenStates', compressor: { kind: 'tile', tiles: 64 }, dtype: 'f32' },
    { point: 'InputTokens', compressor: { kind: 'none' } },
  ]);
  const seed = named(kLlama, 'QKV and MLP').entries;
  expect(seed.map(({ point }) => point)).toEqual(['QKV', 'MLP1', 'MLP2', 'InputTokens']);
  expect(seed[0]).toMatchObject({ compressor: { kind: 'tile', tiles: 96 }, dtype: 'bf16' });
  expect(named(kLlama, 'QKV and MLP').text).toBe('QKV, MLP1, MLP2: 96 tiles, bf16');
  const attached = { ...kLlama, points: kLlama.points.filter(({ name }) => name !== 'QKV') };
  expect(named(attached, 'QKV and MLP').text).toBe('MLP1, MLP2: 96 tiles, bf16');
  expect(named(kGpt2, 'Statistics of everything').entries).toHaveLength(15);
  const gradients = named(kGpt2, 'Gradients: norms').entries;
  expect(gradients).toHaveLength(14);
  expect(new Set(gradients.map(({ direction }) => direction))).toEqual(new Set(['gradient']));
  expect(named(kLlama, 'Attention of one layer').entries[0]).toMatchObject({
    layers: '4',
    dtype: 'u8',
    compressor: { kind: 'none' },
  });
  expect(named(kGpt2, 'Predictions').entries[0]).toMatchObject({
    point: 'Logits',
    compressor: { kind: 'topk', k: 10 },
  });
  const persona = named(kGpt2, 'Persona vectors').entries;
  expect(persona.map(({ point, prompts = 'data' }) => `${point} ${prompts}`).sort()).toEqual(
    ['FinalNorm', 'HiddenStates', 'InputTokens'].flatMap((of) => [`${of} data`, `${of} probes`]),
  );
  // The last row of a vector is that of the final norm.
  expect(persona.find(({ point }) => point === 'HiddenStates')?.layers).toBe('1-3');
  expect(presetsOf(kLlama).map(({ name }) => name)).not.toContain('Persona vectors');
  expect(presetsOf(kLlama).map(({ name }) => name)).not.toContain('Prompts');
  expect(presetsOf({ points: [], prompt_sets: [], vectors: [], model: kModel })).toEqual([]);
});

describe('presets of the user', () => {
  const kept = new Map<string, string>();
  beforeEach(() => {
    kept.clear();
    vi.stubGlobal('localStorage', {
      getItem: (key: string) => kept.get(key) ?? null,
      setItem: (key: string, value: string) => kept.set(key, value),
    });
  });
  const rows = rowsOf({ number: 0, entries: named(kGpt2, 'QKV and MLP').entries }, kGpt2.points);

  test('a browser that blocks its storage keeps none, without a failure', () => {
    const denied = (): never => {
      throw new DOMException('denied', 'SecurityError');
    };
    vi.stubGlobal('localStorage', { getItem: denied, setItem: denied });
    writeOwnPresets(withOwnPreset([], 'mine', rows));
    expect(readOwnPresets()).toEqual([]);
  });

  test('are kept by name, and the last of a name counts', () => {
    expect(readOwnPresets()).toEqual([]);
    const one = withOwnPreset([], ' mine ', rows);
    const two = withOwnPreset(withOwnPreset(one, 'other', []), 'mine', rows.slice(1));
    writeOwnPresets(two);
    const read = readOwnPresets();
    expect(read.map(({ name }) => name)).toEqual(['other', 'mine']);
    expect(rowsOfPreset(read[1], kGpt2.points)).toEqual(rows.slice(1));
    expect(rowsOfPreset(read[0], kGpt2.points)).toEqual([]);
  });

  test('what else lies there is left alone', () => {
    for (const junk of ['{', '3', '[3, null, {"name": 1}, {"name": "x"}]', 'null']) {
      kept.set('tensor-tracer.presets', junk);
      expect(readOwnPresets()).toEqual([]);
    }
  });
});
