import { expect, test } from 'vitest';
import type { RunFacts } from '../../protocol/messages';
import { previewPlan } from './preview_plan';

function runOf(
  layers: number,
  sequence: number,
  features = 256,
): Pick<RunFacts, 'points' | 'model'> {
  const point = (name: string, last: number, size: number): RunFacts['points'][number] => ({
    ...{ name, flag: 7, first_layer: Math.min(last, 1), last_layer: last, dims: [] },
    ...{ features: size, text: '' },
  });
  return {
    points: [point('HiddenStates', layers, features), point('InputTokens', 0, 0)],
    model: {
      ...{ num_layers: layers, hidden_size: features, num_attention_heads: 4 },
      ...{ vocab_size: 256, seq_length: sequence },
    },
  };
}

/** What a preview sends of each side, less much for headers and token ids. */
const kMaxBytes = 2 ** 20 - 100_000;

function bytesOf(layers: number, tokens: number, tiles: number): number {
  return layers * tokens * tiles * 4;
}

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
  const wide = previewPlan(runOf(24, 1024))?.entries ?? [];
  const tiles = wide[0].compressor?.tiles ?? 0;
  expect(tiles).toBeGreaterThanOrEqual(8);
  expect(tiles).toBeLessThan(24);
  expect(wide[0].tokens).toBeUndefined();
  expect(bytesOf(24, 1024, tiles)).toBeLessThan(kMaxBytes);
  const long = previewPlan(runOf(80, 32768))?.entries ?? [];
  expect(long[0].compressor?.tiles).toBe(8);
  const [first, end] = long[0].tokens ?? [0, 0];
  expect(first).toBe(0);
  expect(end).toBeGreaterThan(100);
  expect(bytesOf(80, end, 8)).toBeLessThan(kMaxBytes);
  expect(long[1].tokens).toEqual([0, end]);
});

test('a run without the point has no plan; one without token ids goes without them', () => {
  const { points, model } = runOf(4, 256);
  expect(previewPlan(null)).toBeNull();
  expect(previewPlan({ points: [points[1]], model })).toBeNull();
  expect(previewPlan({ points: [points[0]], model })?.entries).toHaveLength(1);
});
