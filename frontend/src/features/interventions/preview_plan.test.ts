import { expect, test } from 'vitest';
import type { RunFacts } from '../../protocol/messages';
import { previewPlan } from './preview_plan';

function runOf(
  layers: number,
  sequence: number,
  features = 256,
): Pick<RunFacts, 'points' | 'model' | 'prompt_sets'> {
  const point = (name: string, last: number, size: number): RunFacts['points'][number] => ({
    ...{ name, flag: 7, first_layer: Math.min(last, 1), last_layer: last, dims: [] },
    ...{ features: size, text: '' },
  });
  return {
    points: [point('HiddenStates', layers, features), point('InputTokens', 0, 0)],
    prompt_sets: [],
    model: {
      ...{ num_layers: layers, hidden_size: features, num_attention_heads: 4 },
      ...{ vocab_size: 256, seq_length: sequence },
    },
  };
}

/** The bytes that a preview sends of each side, less 100 000 for headers and token ids. */
const kMaxBytes = 2 ** 20 - 100_000;

function bytesOf(layers: number, tokens: number, tiles: number): number {
  return layers * tokens * tiles * 4;
}

type Entries = NonNullable<ReturnType<typeof previewPlan>>['entries'];

/** The bytes of predictions for a number of tokens: all scores, or the k best with their softmax. */
function bytesOfPredictions(entries: Entries, tokens: number, vocabulary: number): number {
  const kinds = entries.map(({ compressor }) => compressor);
  return kinds.reduce((sum, compressor) => {
    if (compressor?.kind === 'none') return sum + 4 * tokens * vocabulary;
    if (compressor?.kind !== 'topk') return sum;
    const k = Number(compressor.k);
    return sum + 4 * tokens * k * (2 + Math.ceil(4 / k));
  }, 0);
}

function withLogits(
  layers: number,
  sequence: number,
  vocabulary: number,
  prompts: readonly (readonly string[])[] = [],
): Parameters<typeof previewPlan>[0] {
  const run = runOf(layers, sequence);
  const logits = { ...run.points[0], name: 'Logits', flag: 52, features: vocabulary };
  return {
    ...run,
    points: [...run.points, logits],
    prompt_sets: prompts.map((texts, i) => ({
      ...{ name: `set${i}`, interval: 1, prompts: [...texts] },
      tokens: texts.map((text) => [...new TextEncoder().encode(text)]),
    })),
  };
}

test('a small vocabulary travels whole: of the batch, and of every prompt', () => {
  const entries = previewPlan(withLogits(4, 256, 256, [['def f(', 'é'], ['a']]))?.entries ?? [];
  const whole = (of: object): object[] => [
    { ...of, point: 'InputTokens' },
    { ...of, point: 'Logits', compressor: { kind: 'none' } },
    { ...of, point: 'Logits', compressor: { kind: 'topk', k: 1 } },
  ];
  expect(entries.slice(1)).toEqual([
    ...whole({ phases: ['eval'], rows: 1 }),
    ...whole({ prompts: 'set0', rows: 0 }),
    ...whole({ prompts: 'set1', rows: 0 }),
    {
      ...{ point: 'HiddenStates', prompts: 'set0', rows: 1, dtype: 'f32' },
      compressor: { kind: 'tile', tiles: 24, method: 'mean' },
    },
  ]);
});

test('the map of a prompt: of the first one alone, with fewer tiles and tokens if it is long', () => {
  const mapOf = (layers: number, texts: readonly string[]): Entries[number] | undefined =>
    previewPlan(withLogits(layers, 4096, 256, [texts]))?.entries.at(-1);
  expect(mapOf(4, ['def f(', 'a longer one'])).toMatchObject({ prompts: 'set0', tokens: [0, 6] });
  const long = mapOf(80, ['x'.repeat(1000), 'a']);
  expect(long?.compressor?.tiles).toBe(8);
  const [, end] = long?.tokens ?? [0, 0];
  expect(end).toBeGreaterThan(20);
  expect(bytesOf(80, end, 8)).toBeLessThan(60_001);
});

test('of a large vocabulary the k best travel, as many as have room', () => {
  const long = 'x'.repeat(300);
  const entries = previewPlan(withLogits(12, 1024, 49_152, [[long, 'a'], ['b']]))?.entries ?? [];
  const [ofBatch, ...ofPrompts] = entries.filter(({ point }) => point === 'Logits');
  expect(ofBatch.compressor?.kind).toBe('topk');
  const k = Number(ofBatch.compressor?.k);
  expect(k).toBeGreaterThanOrEqual(10);
  expect(ofPrompts.map(({ prompts }) => prompts)).toEqual(['set0', 'set1']);
  expect(ofPrompts[0].compressor).toEqual(ofPrompts[1].compressor);
  const maps = bytesOf(12, 1024, entries[0].compressor?.tiles ?? 0);
  const predictions =
    bytesOfPredictions([ofBatch], 1024, 49_152) + bytesOfPredictions([ofPrompts[0]], 601, 49_152);
  expect(maps + predictions).toBeLessThan(kMaxBytes);
});

test('a long row is cut, and prompts without room are left out', () => {
  const many = Array.from({ length: 256 }, () => 'x'.repeat(1000));
  const run = withLogits(80, 32_768, 49_152, [many, ['a']]);
  const entries = previewPlan(run)?.entries.filter(({ point }) => point === 'Logits') ?? [];
  expect(entries.map(({ prompts }) => prompts)).toEqual([undefined, 'set1']);
  const [, end] = entries[0].tokens ?? [0, 0];
  expect(end).toBeGreaterThan(100);
  expect(bytesOfPredictions([entries[0]], end, 49_152)).toBeLessThan(kMaxBytes);
});

test('the first row of an evaluation batch, in tiles, and its tokens', () => {
  expect(previewPlan(runOf(4, 256))).toEqual({
    entries: [
      {
        ...{ point: 'HiddenStates', phases: ['eval'], rows: 1 },
        compressor: { kind: 'tile', tiles: 24, method: 'mean' },
        dtype: 'f32',
      },
      { point: 'InputTokens', phases: ['eval'], rows: 1 },
    ],
  });
});

test('no more tiles than features', () => {
  expect(previewPlan(runOf(4, 256, 16))?.entries[0].compressor?.tiles).toBe(16);
});

test('what would not fit in a message has fewer tiles, then fewer tokens', () => {
  const wide = previewPlan(runOf(16, 1024))?.entries ?? [];
  const tiles = wide[0].compressor?.tiles ?? 0;
  expect(tiles).toBeGreaterThanOrEqual(8);
  expect(tiles).toBeLessThan(24);
  expect(wide[0].tokens).toBeUndefined();
  expect(bytesOf(16, 1024, tiles)).toBeLessThan(kMaxBytes);
  const long = previewPlan(runOf(80, 32768))?.entries ?? [];
  expect(long[0].compressor?.tiles).toBe(8);
  const [first, end] = long[0].tokens ?? [0, 0];
  expect(first).toBe(0);
  expect(end).toBeGreaterThan(100);
  expect(bytesOf(80, end, 8)).toBeLessThan(kMaxBytes);
});

test('a run without the point has no plan; one without token ids goes without them', () => {
  const { points, ...run } = runOf(4, 256);
  expect(previewPlan(null)).toBeNull();
  expect(previewPlan({ ...run, points: [points[1]] })).toBeNull();
  expect(previewPlan({ ...run, points: [points[0]] })?.entries).toHaveLength(1);
});
