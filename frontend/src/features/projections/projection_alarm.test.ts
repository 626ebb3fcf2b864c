import { beforeEach, expect, test } from 'vitest';
import { planSchema, runSchema } from '../../protocol/messages';
import type { View, ViewQuery } from '../../core/store/frames';
import type { ProjectionFrame } from './frame';
import type { Session } from '../../core/session/session';
import { PlanBook } from '../../core/session/plan_book.svelte';
import { ProjectionAlarm } from './projection_alarm.svelte';
import { defaultView, type ViewState } from '../../core/session/url_state';
import { watchedEntries } from '../../core/session/watched';

const kRun = runSchema(
  {
    ...{ id: '5f0c', name: 'demo', mesh: { tensor: 1, pipeline: 1, data: 1 } },
    model: { num_layers: 4, hidden_size: 8, num_attention_heads: 2, vocab_size: 9, seq_length: 4 },
    points: [{ name: 'HiddenStates', flag: 7, first_layer: 1, last_layer: 4, features: 8 }],
  },
  'run',
);
const kPlan = planSchema(
  { entries: [{ point: 'HiddenStates', compressor: { kind: 'projection', vectors: ['evil'] } }] },
  'plan',
);

/** The part of the page that an alarm reads. */
class Stage {
  readonly asked: (ViewQuery | null)[] = [];
  view: ViewState = {
    ...defaultView(),
    ...{ threshold: 2, alarmTarget: '2.0.0.last.train.HiddenStates · projection' },
  };
  watched = watchedEntries(kRun, kPlan);
  plan = { ...kPlan, number: 1 };
  readonly run = kRun;
  readonly plans = new PlanBook();
  readonly otherRuns = [];
  readonly tokenizer = 'byte';
  replay: { step: number } | null = null;
  frame: ProjectionFrame | null = null;
  readonly phase = 'train';
  readonly link = { query: (_: string, query: ViewQuery | null) => this.asked.push(query) };
  readonly alarm = new ProjectionAlarm(this as unknown as Session);

  get point(): (typeof this.watched)[number] {
    return this.watched[0];
  }

  get until(): number | null {
    return this.replay?.step ?? this.view.hold;
  }

  everyOf(): number {
    return 1;
  }

  show(change: Partial<ViewState>): void {
    this.view = { ...this.view, ...change };
    this.alarm.sendQuery();
  }

  /** The answer to the newest query: each of `layers` is at `value` from step 5 on. */
  answer(layers: readonly number[], value: number, query = this.asked.at(-1)): void {
    const steps = [4, 5, 6];
    const last = layers.map(() => [0, value, value]);
    const history = { steps, lines: { last, mean: last } };
    const place = { plan: 1, entry: 0, layers, layer: layers[0], vector: 0 };
    const frame = { kind: 'projection', query, ...place, history };
    this.alarm.onView('alarm', { frame } as unknown as View);
  }
}

let stage: Stage;

beforeEach(() => {
  stage = new Stage();
  stage.plans.add(stage.plan);
  stage.alarm.sendQuery();
});

test('it rings with the step of the crossing', () => {
  stage.answer([1, 2, 3, 4], 3);
  expect(stage.alarm.ringing?.text).toMatch(/^L2 of HiddenStates on evil crossed .* at step 5$/);
  stage.answer([1, 2, 3, 4], 1);
  expect(stage.alarm.ringing).toBeNull();
});

test('it tells a projection that overflows as it is', () => {
  stage.answer([1, 2, 3, 4], Number.NaN);
  expect(stage.alarm.ringing).toMatchObject({ newest: Number.NaN, crossing: { step: 5 } });
});

test('a held view does not silence it, a replay ends it where it stands', () => {
  stage.show({ hold: 5 });
  expect(stage.asked.at(-1)?.until).toBeNull();
  stage.replay = { step: 6 };
  stage.alarm.sendQuery();
  expect(stage.asked.at(-1)?.until).toBe(6);
});

test('it judges the layer that it watches, and no other in its place', () => {
  stage.answer([3, 4], 3);
  expect(stage.alarm.ringing).toBeNull();
  stage.watched = watchedEntries(kRun, {
    number: 1,
    entries: [{ ...kPlan.entries[0], layers: '3-4' }],
  });
  stage.alarm.sendQuery();
  expect(stage.asked.at(-1)?.layer).toBe(2);
});

test('its target is the layer that was chosen, though the frame shows the nearest', () => {
  stage.answer([3, 4], 3);
  const query = stage.asked.at(-1) as ViewQuery;
  const shown = { kind: 'projection', query, layers: [3, 4], layer: 3, vector: 0 };
  stage.frame = shown as unknown as ProjectionFrame;
  stage.view = { ...stage.view, tab: 'tensors', alarmTarget: '' };
  stage.alarm.onShown();
  expect(stage.view.alarmTarget).toBe('2.0.0.last.train.HiddenStates · projection');
});

test('it goes on ringing while a replay moves and the page looks at something else', () => {
  const [query] = stage.asked;
  stage.answer([1, 2], 3);
  stage.show({ head: 1, aggregate: 'absmax', layout: 'over' });
  expect(stage.asked).toEqual([query]);
  for (const step of [7, 8]) {
    stage.replay = { step };
    stage.alarm.sendQuery();
    expect(stage.alarm.ringing).not.toBeNull();
  }
  // What was on its way when the replay moved on is of the same projection.
  stage.answer([1, 2], 1, stage.asked.at(-2));
  expect(stage.alarm.ringing).toBeNull();
});

test.each<Partial<ViewState>>([
  { alarmTarget: '3.0.0.last.train.HiddenStates · projection' },
  { alarmTarget: '2.1.0.last.train.HiddenStates · projection' },
  { alarmTarget: '2.0.1.last.train.HiddenStates · projection' },
])('another projection begins anew: %o', (change) => {
  const [query] = stage.asked;
  stage.answer([1, 2, 3], 3);
  stage.show(change);
  expect(stage.alarm.ringing).toBeNull();
  stage.answer([1, 2, 3], 3, query);
  expect(stage.alarm.ringing).toBeNull();
});
