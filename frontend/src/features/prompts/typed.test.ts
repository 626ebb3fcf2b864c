import { expect, test } from 'vitest';
import { runSchema } from '../../protocol/messages';
import { kTypedPrompt, type PromptAnswer } from '../../protocol/prompts';
import { defaultView } from '../../core/session/url_state';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';
import type { ViewFrame } from '../../core/store/frames';
import { pairOf, plainEntries, tokensOf, type Typed, typedEntries, typedQuery } from './typed';

const kRun = runSchema(
  {
    ...{ id: '5f0c', name: 'demo', mesh: { tensor: 1, pipeline: 1, data: 1 } },
    model: { num_layers: 4, hidden_size: 8, num_attention_heads: 2, vocab_size: 9, seq_length: 9 },
    points: [
      { name: 'InputTokens', flag: 1, first_layer: 0, last_layer: 0, features: 0 },
      { name: 'HiddenStates', flag: 7, first_layer: 1, last_layer: 4, features: 8 },
    ],
  },
  'run',
);
const answer: PromptAnswer = {
  ...{ step: 12, tokens: [195, 169, 97], programs: [], notes: [] },
  records: { off: '', on: '' },
  plan: {
    number: 0,
    entries: [
      { point: 'InputTokens', prompts: 'typed prompt' },
      { point: 'HiddenStates', prompts: 'typed prompt', tokens: [1, 3] },
    ],
  },
};
const kTyped: Typed = { run: '5f0c', text: 'éa', answer };

test('a text has as many tokens as the trainer finds; of another tokenizer nothing is known', () => {
  expect(tokensOf('éa', 'byte')).toBe(3);
  expect(tokensOf('éa', 'bpe')).toBeNull();
});

test('the entries of an answer are shown without the name that the trainer gave the prompt', () => {
  const entries = typedEntries(kRun, kTyped);
  expect(entries).toMatchObject([
    { name: 'HiddenStates', entry: 1, promptSet: kTypedPrompt.off, prompts: ['éa'], firstToken: 1 },
  ]);
  expect(plainEntries(answer).map(({ prompts }) => prompts)).toEqual([undefined, undefined]);
});

test('each side has its own records; layers beyond the model are the nearest one', () => {
  const [entry] = typedEntries(kRun, kTyped);
  const session = { view: { ...defaultView(), layer: 9, row: 3 } };
  const query = typedQuery(session, entry, kTyped, 'on');
  expect(query).toMatchObject({ promptSet: kTypedPrompt.on, plan: 0, entry: 1, layer: 4, row: 0 });
  expect(query.lengths).toEqual([3]);
});

function frame(values: readonly number[]): ViewFrame {
  const store = new RingStore(Infinity);
  store.insert(makeRecord({}, Float32Array.from(values)));
  return frameOf(store, 'maps');
}

test('the difference is on − off, and named so; without programs there is no difference', () => {
  const pair = pairOf({ off: frame([1, 2, 3, 4]), on: frame([1, 2, 5, 4]) });
  expect(pair?.names).toEqual({ a: 'on', b: 'off' });
  expect(pair?.kind === 'maps' && [...pair.tileMaps.difference.values]).toEqual([0, 2, 0, 0]);
  expect(pairOf({ off: frame([1, 2, 3, 4]), on: null })).toBeNull();
});
