import { expect, test } from 'vitest';
import { parse } from '../base/schema';
import { helloSchema, parseTextMessage, planSchema, runSchema } from './messages';

const kRun = {
  id: '5f0c12ab34cd56ef',
  name: 'demo',
  mesh: { tensor: 2, pipeline: 1, data: 1 },
  model: {
    num_layers: 4,
    hidden_size: 256,
    num_attention_heads: 4,
    vocab_size: 256,
    seq_length: 256,
  },
  points: [
    { name: 'HiddenStates', flag: 7, first_layer: 1, last_layer: 4, features: 256, later: 1 },
  ],
  plan: {
    number: 3,
    entries: [{ point: 'HiddenStates', compressor: { kind: 'tile', tiles: 64 } }],
  },
};

test('a hello answer is read, and what this version does not know is ignored', () => {
  const hello = parse(helloSchema, {
    version: 1,
    session: 'v3',
    hub: '0.1.0',
    run: { ...kRun, news: true },
    state: { phase: 'training', step: 12 },
    control: { holder: null },
  });
  expect(hello.run?.points[0]).toEqual({
    name: 'HiddenStates',
    flag: 7,
    first_layer: 1,
    last_layer: 4,
    dims: [],
    features: 256,
    text: '',
  });
  expect(hello.run).toMatchObject({ prompt_sets: [], vectors: [] });
  expect(hello.run).not.toHaveProperty('news');
});

test('everything of a plan entry is read', () => {
  const entry = {
    point: 'HiddenStates',
    direction: 'gradient',
    micro_batches: '0-3',
    rows: [2, 4],
    tokens: [0, 64],
    compressor: { kind: 'stats', range: [-4, 4], bins: 16 },
    dtype: 'f64',
  };
  const projection = {
    point: 'HiddenStates',
    prompts: 'probes',
    rows: 0,
    compressor: { kind: 'projection', vectors: ['evil'], normalize: false },
  };
  const tile = {
    kind: 'tile',
    tiles: 4,
    method: 'sum',
    tiles_one_rank: 8,
    method_one_rank: 'mean',
  };
  const entries = [entry, projection, { point: 'QKV', compressor: tile }];
  expect(parse(planSchema, { number: 1, entries })).toEqual({ number: 1, entries });
  const read = (part: object): unknown =>
    parse(planSchema, { entries: [{ point: 'QKV', ...part }] });
  expect(() => read({ rows: [1, 2, 3] })).toThrow('rows: expected a list of two');
  expect(() => read({ direction: 'up' })).toThrow('entries[0].direction');
});

test('prompt sets, vectors and gradients of a run are read', () => {
  const run = {
    ...kRun,
    points: [{ ...kRun.points[0], dims: ['batch'], gradient_placement: { tensor: 'replicate' } }],
    prompt_sets: [{ name: 'probes', interval: 50, prompts: ['Once upon'] }],
    vectors: ['evil'],
  };
  expect(parse(runSchema, run)).toMatchObject({
    points: [{ dims: ['batch'], gradient_placement: { tensor: 'replicate' } }],
    prompt_sets: [{ name: 'probes', interval: 50, prompts: ['Once upon'] }],
    vectors: ['evil'],
  });
});

test('numbers that JSON cannot write come as strings', () => {
  const text = '{"event": "step", "params": {"step": 3, "loss": "NaN", "grad_norm": "-Infinity"}}';
  const message = parseTextMessage(text);
  expect(message).toEqual({
    kind: 'notification',
    notification: {
      event: 'step',
      params: { step: 3, loss: Number.NaN, grad_norm: Number.NEGATIVE_INFINITY },
    },
  });
});

test('answers and errors are told apart', () => {
  expect(parseTextMessage('{"id": 7, "result": {}}')).toMatchObject({
    kind: 'answer',
    answer: { id: 7, ok: true },
  });
  const error = '{"id": 8, "error": {"code": "busy", "message": "Ada", "remedy": "take over"}}';
  expect(parseTextMessage(error)).toMatchObject({
    answer: { id: 8, ok: false, error: { code: 'busy', remedy: 'take over' } },
  });
});

test('an event of a later version is not an error', () => {
  expect(parseTextMessage('{"event": "weather", "params": {}}')).toEqual({
    kind: 'unknown',
    event: 'weather',
  });
});

test('what does not fit is refused with the place', () => {
  expect(() => parseTextMessage('[]')).toThrow('expected an object');
  expect(() => parseTextMessage('{"id": 1}')).toThrow('an answer or a notification');
  expect(() => parseTextMessage('{"event": "state", "params": {"phase": "odd"}}')).toThrow(
    'params.phase: expected one of',
  );
  expect(() => parse(planSchema, { number: 1, entries: [{ point: 5 }] })).toThrow(
    'entries[0].point: expected a string',
  );
  expect(() => parseTextMessage('not json')).toThrow();
});
