import { expect, test } from 'vitest';
import type { Session } from '../../core/session/session';
import { defaultView } from '../../core/session/url_state';
import { watchedEntries } from '../../core/session/watched';
import type { View, ViewQuery } from '../../core/store/frames';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';
import { type OtherRunFacts, type RunFacts, runSchema } from '../../protocol/messages';
import { Beside } from './beside.svelte';
import { besideQuery, traitsQuery } from './trait_entries';

const kModel = {
  ...{ num_layers: 2, hidden_size: 8, num_attention_heads: 2, vocab_size: 9, seq_length: 9 },
};
const kPoint = { name: 'HiddenStates', flag: 7, first_layer: 1, last_layer: 2, features: 8 };
const kOther = '00000000000000aa';

function runOf(id: string, vectors: readonly string[], point = kPoint.name): RunFacts {
  const entries = [{ point, compressor: { kind: 'projection', vectors } }];
  return runSchema(
    {
      ...{ id, name: `run ${id.slice(-2)}`, model: kModel, points: [kPoint], vectors },
      mesh: { tensor: 1, pipeline: 1, data: 1 },
      plan: { number: 1, entries },
    },
    'run',
  );
}

/** A page with the view Traits, and the queries that it sent. */
class Stage {
  readonly asked: (ViewQuery | null)[] = [];
  readonly session: Session;
  readonly beside: Beside;

  constructor(other: OtherRunFacts, view: Partial<Session['view']> = {}) {
    const run = runOf('00000000000000bb', ['evil', 'kind']);
    const points = watchedEntries(run, run.plan ?? null);
    this.session = {
      ...{ run, plan: run.plan, points, point: points[0], layer: 1, phase: 'train', until: null },
      view: { ...defaultView(), tab: 'traits', runB: other.id, vector: 1, ...view },
      otherRuns: [other],
      everyOf: () => 1,
      link: { query: (_: string, query: ViewQuery | null) => this.asked.push(query) },
    } as unknown as Session;
    this.beside = new Beside(this.session);
  }

  show(view: Partial<Session['view']>): void {
    (this.session as { view: Session['view'] }).view = { ...this.session.view, ...view };
    this.beside.sendQuery();
  }

  get last(): ViewQuery | null | undefined {
    return this.asked.at(-1);
  }
}

function other(change: Partial<OtherRunFacts> = {}): OtherRunFacts {
  const facts = runOf(kOther, ['kind', 'evil']);
  return { id: kOther, name: 'prevention', facts, first_step: 1, last_step: 40, ...change };
}

function viewOf(query: ViewQuery | null | undefined): View {
  const store = new RingStore(1e6);
  store.insert(makeRecord({ compressor: 4, step: 40, shape: [1, 2, 2] }));
  return { frame: frameOf(store, 'traits', { ...query, plan: 1 }) };
}

test('the run beside is asked for the trait of the same name, first at its newest step', () => {
  const stage = new Stage(other(), { step: 10 });
  stage.beside.sendQuery();
  expect(stage.last).toMatchObject({ run: kOther, step: 40, vector: 0, traits: true });
  expect(stage.last?.layout).toBe('over');
  stage.beside.onView('beside', viewOf(stage.last));
  // Its past steps are on the way now, so the shown step can be asked for.
  expect(stage.last?.step).toBe(10);
  expect(stage.beside.frame?.vectors).toBe(2);
  stage.show({ step: 99 });
  expect(stage.last?.step).toBe(40);
});

test('only the query of means over responses says so', () => {
  const stage = new Stage(other());
  const { session } = stage;
  expect(traitsQuery(session)?.ofResponses).toBe(false);
  const [entry] = session.points;
  for (const [mean, is] of [
    ['response', true],
    ['last-prompt', false],
  ] as const) {
    const point = { ...entry, meanOver: mean };
    expect(traitsQuery({ ...session, point })?.ofResponses).toBe(is);
    expect(besideQuery(session, other(), point, null).ofResponses).toBe(is);
  }
});

test('views of another slot or another run are not its views', () => {
  const stage = new Stage(other());
  stage.beside.sendQuery();
  stage.beside.onView('other', viewOf(stage.last));
  stage.beside.onView('beside', viewOf({ ...(stage.last as ViewQuery), run: 'x' }));
  expect(stage.beside.frame).toBeNull();
});

test('without a run beside, in another tab or for training data, nothing is asked for', () => {
  const stage = new Stage(other());
  stage.beside.sendQuery();
  for (const change of [{ tab: 'tensors' }, { traitsPart: 'data' as const }, { runB: '' }]) {
    stage.show({ tab: 'traits', traitsPart: 'run', runB: kOther });
    expect(stage.last).not.toBeNull();
    stage.show(change);
    expect(stage.last).toBeNull();
    expect(stage.beside.frame).toBeNull();
  }
});

test('the reason is named if the run has nothing to show', () => {
  expect(new Stage(other(), { runB: '' }).beside.problem).toBe('');
  expect(new Stage(other()).beside.problem).toBe('Loading prevention.');
  const unknown = new Stage(other(), { runB: '9'.repeat(16) });
  expect(unknown.beside.problem).toMatch(/offers no run 9{16}.*--compare FILE/);
  const facts = runOf(kOther, ['evil'], 'MLP1');
  expect(new Stage(other({ facts })).beside.problem).toBe(
    'prevention does not trace HiddenStates · projection.',
  );
  const stage = new Stage(other());
  stage.beside.sendQuery();
  const none = { steps: [], dtype: 0, compressor: 0, shape: [] };
  const query = stage.last as ViewQuery;
  stage.beside.onView('beside', { empty: { query, reason: 'gap', ...none } });
  expect(stage.beside.problem).toBe('prevention has no kept projections of this entry.');
});
