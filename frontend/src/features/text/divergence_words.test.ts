import { expect, test } from 'vitest';
import type { PresetRun } from '../../core/registry/plan_feature';
import { boundText, kExactPreset } from './divergence_words';
import { kPlan } from './plan';

function entriesOf(features: number): unknown {
  const run = { points: [{ name: 'Logits', features }], prompt_sets: [], vectors: [] };
  const presets = kPlan.presetsOf?.(run as unknown as PresetRun) ?? [];
  return presets.find(({ name }) => name === kExactPreset)?.entries;
}

test('a preset lists a whole vocabulary as large as the trainer takes', () => {
  const compressor = { kind: 'topk', k: 256 };
  expect(entriesOf(256)).toEqual([{ point: 'Logits', every: 10, compressor }]);
  expect(entriesOf(257)).toEqual([]);
});

test('a lower bound says how it becomes exact, or for which vocabularies', () => {
  expect(boundText(10, 256)).toContain(`10 of 256 tokens: the Plan preset “${kExactPreset}”`);
  expect(boundText(10, 49_152)).toContain('at most 256 tokens');
});
