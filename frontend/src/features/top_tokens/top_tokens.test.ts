import { expect, test } from 'vitest';
import { planCompressor } from '../../core/registry/plan';
import type { PlanRow } from '../../core/registry/plan_feature';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';
import { columnsOf, unitName } from './units';

/** A list of two units with two places; the second unit has one token. Three ids instead of 33. */
const kNumbers = [
  ...[9.5, 20, 3, 7, 65, 66, 67, 8.5, 10, 0, 0, -1, 68, 69],
  ...[-1, 30, 1, 2, 70, 71, -1, Number.NaN, -1, -1, -1, -1, -1, -1],
];

test('the list of one unit, the largest first, without places that are not filled', () => {
  const store = new RingStore(1e6);
  store.insert(makeRecord({ compressor: 6, shape: [2, 2, 7] }, Float32Array.from(kNumbers)));
  const frame = frameOf(store, 'top_tokens', { form: 'top_tokens' });
  expect([frame.units, frame.unit, frame.best.length]).toEqual([2, 0, 2]);
  expect(frame.best[0]).toEqual({ value: 9.5, step: 20, row: 3, position: 7, ids: [65, 66, 67] });
  const second = frameOf(store, 'top_tokens', { form: 'top_tokens', vector: 1 });
  expect(second.best).toEqual([{ value: -1, step: 30, row: 1, position: 2, ids: [70, 71, -1] }]);
});

test('a unit is a column or a direction', () => {
  expect(unitName({ kind: 'top_tokens', columns: [3, 17] }, 1)).toBe('column 17');
  expect(unitName({ kind: 'top_tokens', vectors: ['evil'] }, 0)).toBe('direction evil');
  expect(unitName(undefined, 2)).toBe('unit 2');
  expect([columnsOf('3, 17'), columnsOf('3;17'), columnsOf('')]).toEqual([
    [3, 17],
    undefined,
    undefined,
  ]);
});

test('an entry survives the form of the plan', () => {
  const form = planCompressor('top_tokens');
  const back = (of: object): unknown => {
    const row = { kind: 'top_tokens', ...form?.rowOf({ kind: 'top_tokens', ...of }) } as PlanRow;
    return JSON.parse(JSON.stringify(form?.entryOf(row)));
  };
  const columns = { kind: 'top_tokens', columns: [3, 17], k: 5 };
  expect(back(columns)).toEqual(columns);
  const vectors = { kind: 'top_tokens', vectors: ['evil'], normalize: false };
  expect(back(vectors)).toEqual(vectors);
});

test('an entry without units, or with a wrong column, is named', () => {
  const form = planCompressor('top_tokens');
  const problem = (change: Partial<PlanRow>): unknown =>
    form?.problemOf?.({ columns: '', k: '', vectors: [], ...change } as unknown as PlanRow)?.[0];
  expect(problem({})).toBe('columns');
  expect(problem({ columns: '1, x' })).toBe('columns');
  expect(problem({ columns: '1', k: 'x' })).toBe('k');
  expect(problem({ columns: '1' })).toBeUndefined();
  expect(problem({ vectors: ['evil'] })).toBeUndefined();
});
