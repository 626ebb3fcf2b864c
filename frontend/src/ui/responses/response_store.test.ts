import { expect, test } from 'vitest';
import type { ResponseFacts } from '../../protocol/messages';
import { kMaxResponses, ResponseStore } from './response_store';

function response(step: number, text: string, prompt = 0): ResponseFacts {
  return { step, prompt_set: 1, prompt, text, token_ids: [step], finish_reason: 'length' };
}

test('responses to a prompt come newest first, up to a step, each step once', () => {
  const store = new ResponseStore();
  expect(store.isEmpty).toBe(true);
  for (const [step, text] of [
    [20, 'b'],
    [10, 'a'],
    [30, 'c'],
    [20, 'B'],
  ] as const) {
    store.add(response(step, text));
  }
  store.add(response(20, 'other', 1));
  expect(store.of(1, 0, Infinity).map(({ text }) => text)).toEqual(['c', 'B', 'a']);
  expect(store.of(1, 0, 29).map(({ text }) => text)).toEqual(['B', 'a']);
  expect(store.of(1, 1, 20)).toHaveLength(1);
  expect(store.of(2, 0, 20)).toEqual([]);
  store.clear();
  expect(store.isEmpty).toBe(true);
});

test('the oldest responses to a prompt are dropped', () => {
  const store = new ResponseStore();
  for (let step = 1; step <= kMaxResponses + 5; step++) store.add(response(step, ''));
  const kept = store.of(1, 0, Infinity);
  expect(kept).toHaveLength(kMaxResponses);
  expect(kept.at(-1)?.step).toBe(6);
});
