import { beforeEach, expect, test } from 'vitest';
import { type AuditLine, type OtherRunFacts, type Plan, runSchema } from '../../protocol/messages';
import { compressorFor, PlanBook } from './plan_book.svelte';

const kRun = runSchema(
  {
    ...{ id: '5f0c', name: 'demo', mesh: { tensor: 1, pipeline: 1, data: 1 } },
    model: { num_layers: 4, hidden_size: 8, num_attention_heads: 2, vocab_size: 9, seq_length: 4 },
    points: [{ name: 'MLP1', flag: 7, first_layer: 1, last_layer: 4, features: 8 }],
  },
  'run',
);
const planOf = (number: number, method: string): Plan => ({
  number,
  entries: [{ point: 'MLP1' }, { point: 'MLP1', compressor: { kind: 'tile', method } }],
});

let plans: PlanBook;
const of = (plan: number, entry: number, run = ''): ReturnType<typeof compressorFor> => {
  const facts = { ...kRun, id: '77', plan: planOf(2, 'absmax') };
  const other: OtherRunFacts = { id: '77', name: 'other', facts, first_step: 1, last_step: 9 };
  const app = { run: kRun, plans, otherRuns: [other] };
  return compressorFor(app, { query: { run }, plan, entry });
};

beforeEach(() => {
  plans = new PlanBook();
  plans.add(planOf(1, 'sum'));
  plans.add(planOf(2, 'std'));
});

test('a record is worded by the plan that it was made by', () => {
  expect(of(1, 1)?.method).toBe('sum');
  expect(of(2, 1)?.method).toBe('std');
  expect(of(2, 0)).toEqual({ kind: 'tile' });
});

test('of a plan or an entry that nobody knows nothing is said', () => {
  expect(of(3, 1)).toBeUndefined();
  expect(of(1, 7)).toBeUndefined();
  plans.clear();
  expect(of(1, 1)).toBeUndefined();
});

test('another run has its own plans', () => {
  expect(of(2, 1, '77')?.method).toBe('absmax');
  expect(of(1, 1, '77')).toBeUndefined();
  expect(of(2, 1, '99')).toBeUndefined();
});

test('a plan that comes again counts anew, and the oldest are forgotten', () => {
  plans.add(planOf(1, 'max'));
  expect(of(1, 1)?.method).toBe('max');
  for (let number = 10; number < 1010; number++) plans.add(planOf(number, 'sum'));
  expect([of(2, 1), of(1009, 1)?.method]).toEqual([undefined, 'sum']);
});

test('the trail tells of plans that were in force before the page came', () => {
  const lineOf = (id: number, kind: string, detail: unknown): AuditLine => ({
    ...{ id, kind, detail, who: '', time_ns: 1, step: 1, run: id > 6 ? '77' : '5f0c' },
  });
  plans = new PlanBook();
  plans.add(planOf(4, 'std'));
  const lines = [
    lineOf(1, 'run', { plan: planOf(1, 'sum') }),
    lineOf(2, 'plan.set', { params: {}, result: { step: 3, plan: planOf(2, 'max') } }),
    lineOf(3, 'plan', { step: 5, plan: planOf(3, 'min') }),
    lineOf(4, 'plan', { step: 5, plan: planOf(4, 'mean') }),
    lineOf(5, 'plan', { step: 5 }),
    lineOf(6, 'log', { plan: planOf(5, 'mean') }),
    lineOf(7, 'run', { plan: planOf(1, 'mean') }),
  ];
  plans.recall(lines, '5f0c');
  expect([1, 2, 3, 4, 5].map((number) => of(number, 1)?.method)).toEqual([
    ...['sum', 'max', 'min', 'std', undefined],
  ]);
});

test('the plan of an answer words its records, and is no plan of the run', () => {
  plans.lend(planOf(0, 'absmax'));
  expect(of(0, 1)?.method).toBe('absmax');
  expect(plans.all.map(({ plan }) => plan.number)).toEqual([1, 2]);
  plans.lend(planOf(0, 'sum'));
  expect(of(0, 1)?.method).toBe('sum');
});
