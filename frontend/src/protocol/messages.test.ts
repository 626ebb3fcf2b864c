import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from '../base/schema';
import { HubClient, kWindow } from './hub_client';
import { helloSchema, parseTextMessage, planSchema, runSchema } from './messages';
import type { PipeListener } from './pipe';

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

test('a run of more layers than a record can name is refused', () => {
  const model = { ...kRun.model, num_layers: 65535 };
  expect(parse(runSchema, { ...kRun, model }).model.num_layers).toBe(65535);
  const large = { ...kRun, model: { ...model, num_layers: 1e9 } };
  expect(() => parse(runSchema, large)).toThrow('model.num_layers: expected a whole number from 0');
  const points = [{ ...kRun.points[0], last_layer: 1e9 }];
  expect(() => parse(runSchema, { ...kRun, points })).toThrow('points[0].last_layer');
});

test('everything of a plan entry is read', () => {
  const entry = {
    point: 'HiddenStates',
    enabled: false,
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

test('drops by entry, the time of the tracer and the state of a replay are read', () => {
  const read = (event: string, params: object): unknown => {
    const message = parseTextMessage(JSON.stringify({ event, params }));
    return message.kind === 'notification' ? message.notification.params : message;
  };
  const dropped = { records: 5, where: 'viewer', entries: { '0': 3, '2': 2 }, events: 7 };
  expect(read('dropped', dropped)).toEqual(dropped);
  expect(() => read('dropped', { records: 1, entries: { '0': -1 } })).toThrow('params.entries.0');
  expect(read('step', { step: 3, tracer_ms: 1.9 })).toEqual({ step: 3, tracer_ms: 1.9 });
  const replay = {
    ...{ phase: 'replay', step: 12, paused: false, speed: 2 },
    ...{ first_step: 1, last_step: 300 },
  };
  expect(read('state', replay)).toEqual(replay);
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

test('the checkpoints of a run are read: the parent, the command, and a save', () => {
  const facts = {
    resume_command: 'tensor-tracer train --save runs/a --load runs/a',
    parent: { id: '00000000c0ffee00', name: 'demo', step: 100, checkpoint: '/a/step_00000100' },
  };
  expect(parse(runSchema, { ...kRun, ...facts })).toMatchObject(facts);
  const parent = { ...facts.parent, step: -1 };
  expect(() => parse(runSchema, { ...kRun, parent })).toThrow('parent.step');
  const params = { step: 100, path: '/a/step_00000100', bytes: 52428800, seconds: 1.5 };
  expect(parseTextMessage(JSON.stringify({ event: 'checkpoint', params }))).toEqual({
    kind: 'notification',
    notification: { event: 'checkpoint', params },
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

describe('the golden messages of version 1', () => {
  interface Golden {
    readonly form: 'request' | 'result' | 'error' | 'notification' | 'malformed';
    readonly text: string;
    readonly id: number;
    readonly method: string;
    readonly event: string;
    readonly params: Readonly<Record<string, unknown>> | null;
    readonly result: Readonly<Record<string, unknown>>;
    readonly error: Readonly<Record<string, string>>;
  }
  const folder = join(import.meta.dirname, '..', '..', '..', 'tests', 'golden');
  const file = readFileSync(join(folder, 'messages_v1.json'), 'utf8');
  const { messages } = JSON.parse(file) as { readonly messages: readonly Golden[] };
  const of = (form: Golden['form']): Golden[] => messages.filter((m) => m.form === form);
  const numbers = (params: Golden['params']): unknown => {
    const text = JSON.stringify(params ?? {});
    return JSON.parse(text, (_, value: unknown) =>
      value === 'NaN' || value === 'Infinity' ? Number(value) : value,
    );
  };

  test.each(of('result'))('result $id', ({ text, id, result }) => {
    expect(parseTextMessage(text)).toEqual({ kind: 'answer', answer: { id, ok: true, result } });
    if ('session' in result) expect(result).toMatchObject(helloSchema(result, 'result'));
  });

  test.each(of('error'))('error $id', ({ text, id, error }) => {
    expect(parseTextMessage(text)).toEqual({ kind: 'answer', answer: { id, ok: false, error } });
  });

  test.each(of('notification'))('event $event', ({ text, event, params }) => {
    const message = parseTextMessage(text);
    if (message.kind === 'notification') {
      expect(message.notification.event).toBe(event);
      expect(numbers(params)).toMatchObject(message.notification.params);
    } else {
      expect(message).toEqual({ kind: 'unknown', event });
      expect(['ack', 'of_a_later_version']).toContain(event);
    }
  });

  test.each(of('malformed'))('malformed: $text', ({ text }) => {
    expect(() => parseTextMessage(text)).toThrow();
  });

  test('requests are written like this', () => {
    const sent: string[] = [];
    let listener: PipeListener | undefined;
    const nothing = (): void => undefined;
    const client = new HubClient(
      (given) => {
        listener = given;
        return { send: (text) => sent.push(text), close: nothing };
      },
      {
        onHello: nothing,
        onNotification: nothing,
        onRecords: nothing,
        onTaken: nothing,
        onRefused: nothing,
        onProblem: nothing,
        onClosed: nothing,
      },
      'page 0.1',
    );
    const [hello, ...others] = of('request');
    listener?.onOpen();
    for (const { method, params } of others) void client.request(method, params ?? undefined);
    const wanted = [hello, ...others].map(({ text }) => JSON.parse(text) as object);
    wanted[0] = { ...wanted[0], params: { ...hello.params, watch: false, window: kWindow } };
    expect(sent.map((text) => JSON.parse(text) as unknown)).toEqual(wanted);
  });
});

describe('what is told of interventions', () => {
  function told(event: string, params: unknown): unknown {
    const message = parseTextMessage(JSON.stringify({ event, params }));
    return message.kind === 'notification' ? message.notification.params : message;
  }

  test('a program in force, by the run and by its event', () => {
    const program = {
      name: 'steer',
      parameters: [{ name: 'alpha', value: 2, min: 0 }],
      since: 13,
      when: { steps: '100-200' },
      writes: [{ place: 'layers[12].output', point: 'HiddenStates', layer: 12, gradient: false }],
    };
    expect(told('interventions', { step: 13, programs: [program], reason: 'apply' })).toEqual({
      step: 13,
      programs: [
        {
          ...program,
          ...{ text: '', keep: false, saves: [], skips: [], reads: [] },
        },
      ],
      reason: 'apply',
    });
    const run = parse(runSchema, { ...kRun, interventions: [program] });
    expect(run.interventions?.[0].since).toBe(13);
    expect(parse(runSchema, kRun)).not.toHaveProperty('interventions');
  });

  test('what they did in a step, and what they saved', () => {
    const did = { name: 'steer', forwards: 4, positions: 4096, ranks: 2, of_ranks: 2 };
    const applied = told('applied', { step: 13, programs: [{ ...did, later: 1 }] });
    const nothing = { identity: 0, waiting: 0, failed: 0, writes: [] };
    expect(applied).toEqual({ step: 13, programs: [{ ...did, ...nothing }] });
    const saved = { step: 13, program: 'steer', name: 'n', shape: [2], values: [1.5, 'NaN'] };
    expect(told('saved', saved)).toMatchObject({ values: [1.5, Number.NaN], phase: 'train' });
    expect(() => told('saved', { ...saved, values: ['x'] })).toThrow(/values\[1\]|values\[0\]/);
  });
});
