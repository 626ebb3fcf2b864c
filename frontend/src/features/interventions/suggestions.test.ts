import { expect, test } from 'vitest';
import type { RunFacts } from '../../protocol/messages';
import { suggestionsAt } from './suggestions';
import { type Facts, kOperators, middleLayer, operatorsOf } from './vocabulary';

const kModel: RunFacts['model'] = {
  ...{ num_layers: 4, hidden_size: 64, num_attention_heads: 4, vocab_size: 256, seq_length: 16 },
};
const kFacts: Facts = {
  model: kModel,
  vectors: ['evil', 'a "b"'],
  program_places: [
    { path: 'layers[n].mlp.fc1.weight', text: 'weight of the first linear layer' },
    { path: 'layers[n].mlp.activation', text: '' },
    { path: 'layers[n].output', text: 'output of the transformer layer' },
    { path: 'final_norm.output', text: '' },
  ],
};

function textsAt(before: string, program = before): readonly string[] {
  return (suggestionsAt(before, program, kFacts)?.words ?? []).map(({ text }) => text);
}

test('behind a layer stand the places that programs may name', () => {
  const found = suggestionsAt('h = layers[2].mlp.a', '', kFacts);
  expect(found?.back).toBe('mlp.a'.length);
  const texts = found?.words.map(({ text }) => text) ?? [];
  expect(texts).toContain('output');
  expect(texts).toContain('mlp.activation');
  expect(texts).toContain('mlp.fc1.weight');
  expect(texts).not.toContain('final_norm.output');
  expect(found?.words[0].about).toBe('weight of the first linear layer');
  expect(textsAt('layers[layer + 1].')).toContain('mlp.activation');
});

test('vectors by name inside of vector(, whole at a word, with the middle layer', () => {
  expect(suggestionsAt('x = vector("e', '', kFacts)).toEqual({
    back: 2,
    words: [
      { text: '"evil")', about: 'direction vector', kind: 'vector' },
      { text: '"a \\"b\\"")', about: 'direction vector', kind: 'vector' },
    ],
  });
  expect(textsAt('x = v')).toContain('vector("evil")[2]');
  expect(textsAt('x = v')).toContain('layers[2].output');
});

test('behind another value stand operators; behind a place outside the layers its path', () => {
  expect(textsAt('h.no')).toContain('norm(');
  expect(textsAt('layers[2].output.mean(-1).')).not.toContain('output');
  const found = suggestionsAt('x = final_norm.', '', kFacts);
  expect(found?.back).toBe('final_norm.'.length);
  expect(found?.words.map(({ text }) => text)).toContain('final_norm.output');
});

test('names of the program, lines and operators at a word; nothing in a comment or a string', () => {
  const program = 'alpha = param(1.0)\nh = layers[2].output\nif x == 1: y = 2\nal';
  const texts = textsAt('al', program);
  expect(texts.slice(0, 2)).toEqual(['alpha', 'h']);
  expect(texts).toContain('save(');
  expect(texts).toContain('softmax(');
  expect(suggestionsAt('x = 1  # al', '', kFacts)).toBeNull();
  expect(suggestionsAt('save(h, "la', '', kFacts)).toBeNull();
});

test('without a run there are lines and operators', () => {
  const texts = suggestionsAt('s', '', null)?.words.map(({ text }) => text) ?? [];
  expect(texts).toContain('save(');
  expect(texts).toContain('sum(');
});

test('operators are those of the document', () => {
  expect(kOperators.has('linalg_vector_norm')).toBe(true);
  expect(kOperators.has('take_along_dim')).toBe(true);
  expect(kOperators.size).toBeGreaterThan(150);
  // Names in other sections are not operators.
  expect(
    operatorsOf('## Syntax\n`no`\n## Operators\n* **A**: `yes`, `too`\n## Next\n`not`'),
  ).toEqual([...['yes', 'too']]);
});

test('the middle of the layers', () => {
  expect([1, 2, 3, 4, 5, 32].map(middleLayer)).toEqual([1, 1, 2, 2, 3, 16]);
});
