import { expect, test } from 'vitest';
import type { RunFacts } from '../../protocol/messages';
import {
  fittedText,
  kFirstPrograms,
  kReadyPrograms,
  lackOf,
  readyProgram,
  shortTitle,
} from './ready_programs';

const kModel: RunFacts['model'] = {
  ...{ num_layers: 24, hidden_size: 64, num_attention_heads: 4, vocab_size: 256, seq_length: 16 },
};

function named(name: string): (typeof kReadyPrograms)[number] {
  const found = kReadyPrograms.find((each) => each.name === name);
  if (found === undefined) throw new Error(`no program ${name}`);
  return found;
}

test('every ready-made program is there, with the title that its first line gives', () => {
  expect(kReadyPrograms.length).toBeGreaterThan(0);
  for (const { name, title, text } of kReadyPrograms) {
    expect(name).toMatch(/^[a-z0-9_]+$/);
    expect(text.split('\n')[0]).toBe(`# ${title}`);
  }
});

test('a program without a title has its file name', () => {
  expect(readyProgram('../a/clamp.tti', '#  Clamp: a limit \nx = 1\n')).toMatchObject({
    name: 'clamp',
    title: 'Clamp: a limit',
  });
  expect(readyProgram('clamp.tti', 'x = 1 # no title\n').title).toBe('clamp');
});

test('an empty editor offers six of them, among them steering, capping and logit attribution', () => {
  expect(kFirstPrograms.map(({ name }) => name)).toEqual([
    ...['steer', 'cap', 'project_out', 'scale', 'ablate_head', 'logit_attribution'],
  ]);
  expect(shortTitle(kFirstPrograms[0])).toBe('Steer');
});

test("a program takes the run's own vector and a middle layer, in its comments too", () => {
  const text = fittedText(named('steer'), { vectors: ['sycophancy', 'calm'], model: kModel });
  expect(text).toContain('layers[12].output = h + alpha * vector("sycophancy")[12]');
  expect(text).toContain('h = layers[12].output');
  expect(text).toContain(
    'Adds alpha times row 12 of the vector "sycophancy" to the output of layer 12',
  );
  expect(text).not.toMatch(/evil|\b3\b/);
  expect(fittedText(named('steer'), { vectors: ['calm', 'evil'], model: kModel })).toContain(
    'vector("evil")[12]',
  );
  for (const program of kReadyPrograms) {
    const fitted = fittedText(program, { vectors: ['calm'], model: kModel });
    const places = [...fitted.matchAll(/\blayers\[(\d+)\]/g)].map(([, layer]) => layer);
    expect(new Set(places).size, program.name).toBeLessThanOrEqual(1);
    for (const layer of places) expect(layer, program.name).toBe('12');
  }
});

test('before a run is known a program is as in its file; one layer is the middle of one', () => {
  expect(fittedText(named('steer'), null)).toBe(named('steer').text);
  const model = { ...kModel, num_layers: 1 };
  expect(fittedText(named('scale'), { vectors: [], model })).toContain('layers[1].attention');
});

test("logit attribution takes the run's final norm", () => {
  const program = named('logit_attribution');
  const of = (more: Partial<RunFacts['model']>): string =>
    fittedText(program, { vectors: [], model: { ...kModel, ...more } });
  expect(of({})).toMatch(/^centred = 1\.0\nepsilon = 1e-5$/m);
  expect(of({ normalization: 'RMSNorm', norm_epsilon: 1e-6 })).toMatch(
    /^centred = 0\.0\nepsilon = 0\.000001$/m,
  );
});

test('what needs a vector says so in a run that has none', () => {
  expect(lackOf(named('steer'), { vectors: [] })).toContain('--tensor-tracer-vectors');
  expect(lackOf(named('steer'), { vectors: ['calm'] })).toBe('');
  expect(lackOf(named('scale'), { vectors: [] })).toBe('');
});
