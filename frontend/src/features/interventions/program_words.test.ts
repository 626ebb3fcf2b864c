import { describe, expect, test } from 'vitest';
import { parameterSchema, programSchema } from '../../protocol/interventions';
import type { Application, Counters } from './intervention_store';
import {
  appliedText,
  counterLines,
  dialStep,
  forceText,
  placeText,
  programOf,
  rangeText,
  runsText,
  whenWords,
  wrongValue,
} from './program_words';

const kDid: Application = {
  ...{ step: 13, name: 'steer', forwards: 4, positions: 4096 },
  ...{ identity: 0, waiting: 0, failed: 0, ranks: 2, of_ranks: 2 },
  writes: [],
};
const kQuiet: Counters = {
  ...{ whole: true, from: 13, first: kDid, last: kDid, forwards: 8, positions: 8192 },
};

function site(place: string, gradient: boolean, runs: string): Parameters<typeof runsText>[0] {
  return { place, gradient, runs, point: '', layer: 0 };
}

test('text is sent as it is, a graph as an object, and what is neither as text', () => {
  expect(programOf('a = 1')).toBe('a = 1');
  expect(programOf('  {"version": 1}')).toEqual({ version: 1 });
  expect(programOf('{"version": 1')).toBe('{"version": 1');
});

test('how a write runs and where it goes, in words', () => {
  expect(runsText(site('x', false, 'gathered'))).toBe(
    'gathered, computed as a whole, sharded again',
  );
  expect(runsText(site('x', false, 'otherwise'))).toBe('otherwise');
  expect(placeText(site('layers[2].output', true, ''))).toBe('layers[2].output.grad');
  expect(placeText(site('layers[2].output.grad', true, ''))).toBe('layers[2].output.grad');
});

describe('when', () => {
  test('without conditions', () => expect(whenWords({})).toEqual(['training', 'all steps']));

  test('with all of them', () => {
    const when = {
      ...{ phase: 'train,eval', prompts: '*', steps: '100-200', every: 2, layers: '8-12' },
      ...{ rows: '0-3', tokens: '-1', token_text: ' not', positions: 'response' },
    };
    expect(whenWords(when)).toEqual([
      'training and evaluation',
      'every prompt set',
      'steps 100-200',
      'every 2 steps',
      'layers 8-12',
      'rows 0-3',
      'tokens -1',
      'positions response',
      'tokens that spell " not"',
    ]);
  });

  test('on prompts only', () =>
    expect(whenWords({ prompts: 'probes', every: 1 })).toEqual(['prompts probes', 'all steps']));
});

test('what a parameter may be, and what is typed for it', () => {
  const both = parameterSchema({ name: 'a', value: 1, min: 0, max: 2 }, '');
  const low = parameterSchema({ name: 'a', value: 1, min: 0, max: null }, '');
  const none = parameterSchema({ name: 'a', value: 1 }, '');
  expect([both, low, none].map(rangeText)).toEqual(['from 0 to 2', 'from 0', 'any number']);
  expect(wrongValue(both, '2')).toBe('');
  expect(wrongValue(both, '2.1')).toBe('a: from 0 to 2');
  expect(wrongValue(low, '-0.1')).toBe('a: from 0');
  expect(wrongValue(none, '-1e9')).toBe('');
  for (const typed of ['', ' ', 'x', '1e999']) expect(wrongValue(none, typed)).toBe('a: a number');
});

test('a slider moves by round numbers, some 200 from end to end', () => {
  const ends = [
    [0, 20],
    [-1, 1],
    [0, 3],
    [0, 1e-4],
    [0, 2000],
  ] as const;
  expect(ends.map(([low, high]) => dialStep(low, high))).toEqual([0.1, 0.01, 0.02, 5e-7, 10]);
});

test('how it was applied and for how long it is in force', () => {
  expect(appliedText(kQuiet)).toBe('applied at step 13 on 2/2 ranks, 4\u202f096 positions');
  expect(appliedText({ ...kQuiet, first: { ...kDid, positions: 1 } })).toContain('1 position');
  expect(appliedText({ ...kQuiet, first: null })).toBeNull();
  const program = programSchema({ name: 'steer', since: 13, until: 512, keep: true }, '');
  expect(forceText(program)).toBe('in force from step 13 to 512, stays when the lease ends');
  expect(forceText({ ...program, until: undefined, keep: false })).toBe('in force from step 13 on');
});

test('counters say what was left out and why; ranks that did not act are an alarm', () => {
  expect(counterLines(kQuiet).map(({ text }) => text)).toEqual([
    'step 13: 4\u202f096 positions in 4 forwards',
    'in total 8\u202f192 positions in 8 forwards',
  ]);
  const last = { ...kDid, ranks: 1, identity: 1, waiting: 2, failed: 3 };
  expect(counterLines({ ...kQuiet, last }).slice(2)).toEqual([
    { text: 'acted on 1 of 2 ranks only', tone: 'bad' },
    { text: '1 write skipped: the result equals the input', tone: 'plain' },
    { text: '2 lines waited for a saved value', tone: 'warn' },
    { text: '3 lines could not run with the shape of the forward', tone: 'bad' },
  ]);
});

test('a page that came later tells what it has seen, and no more', () => {
  const late = { ...kQuiet, whole: false, from: 130, first: { ...kDid, step: 131 } };
  expect(appliedText(late)).toMatch(/^first seen active at step 131 on 2\/2 ranks/);
  expect(counterLines(late)[1].text).toMatch(/^seen here since step 130: 8\u202f192 positions/);
});

test('positions are told by place and layer', () => {
  const writes = [
    { place: 'layers[12].output', positions: 4096 },
    { place: 'skip(layers[5])', positions: 7 },
  ];
  const lines = counterLines({ ...kQuiet, last: { ...kDid, writes } });
  expect(lines[1].text).toBe('at layers[12].output 4\u202f096, skip(layers[5]) 7');
});
