import { expect, test } from 'vitest';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { defaultView, formatViewState, parseViewState } from '../../core/session/url_state';
import { makeRecord } from '../../core/store/test_records';
import { familyOf, kByName, kRatioColumn, layerIn, sortedRows, wordsOf } from './update_rows';

const kNames = ['embedding.weight', 'layers[1].fc1.weight', 'layers[2].fc1.weight', 'layers[10].b'];

test('the table of a step, and the drawn column of the drawn parameters over the steps', () => {
  const store = new RingStore(1e6);
  const header = { point: 60, layer: 0, compressor: 0, shape: [1, 2, 3], features: 3 };
  for (const step of [10, 20]) {
    const numbers = Float32Array.from([1, 2, 3, 4, 5, 6], (value) => value * step);
    store.insert(makeRecord({ ...header, step }, numbers));
  }
  const query = { point: 60, pointName: 'Updates', layer: 0 };
  const frame = frameOf(store, 'updates', { ...query, updatesColumn: 1, updatesDrawn: [1] });
  expect([frame.parameters, frame.columns]).toEqual([2, 3]);
  expect([...frame.table]).toEqual([20, 40, 60, 80, 100, 120]);
  expect(frame.overSteps).toEqual({ column: 1, steps: [10, 20], values: [[], [50, 100]] });
  // Without a choice, the ratio is drawn, or the last column of a table with fewer columns.
  const first = { ...query, updatesColumn: kRatioColumn, updatesDrawn: [0] };
  expect(frameOf(store, 'updates', first).overSteps).toMatchObject({
    column: 2,
    values: [[30, 60], []],
  });
});

test('rows are sorted by a column or by name, and NaN stands last', () => {
  const table = Float64Array.of(3, Number.NaN, 9, 1);
  const of = { table, parameters: 4, columns: 1 };
  expect(sortedRows(of, kNames, 0, 'down')).toEqual([2, 0, 3, 1]);
  expect(sortedRows(of, kNames, 0, 'up')).toEqual([3, 0, 2, 1]);
  expect(sortedRows(of, kNames, kByName, 'down')).toEqual([0, 1, 2, 3]);
  expect(sortedRows(of, ['b[10]', 'b[9]', 'a', 'c'], kByName, 'up')).toEqual([3, 0, 1, 2]);
});

test('a parameter is drawn with those of its name in the other layers', () => {
  expect(familyOf(kNames, 2)).toEqual([1, 2]);
  expect(familyOf(kNames, 0)).toEqual([0]);
  expect(kNames.map(layerIn)).toEqual([0, 1, 2, 10]);
  expect(wordsOf('update_ratio').name).toBe('update / weight');
  expect(wordsOf('new_column').name).toBe('new_column');
});

test('the choices survive the address', () => {
  const view = { ...defaultView(), updatesColumn: kByName, updatesDrawn: [3, 0, 7] };
  const text = formatViewState({ ...view, updatesOrder: 'up' }, defaultView());
  expect(text).toBe('?ucolumn=name&uorder=up&udrawn=3.0.7');
  expect(parseViewState(text)).toEqual({ ...view, updatesOrder: 'up' });
  expect(parseViewState('?ucolumn=x&udrawn=1.x')).toEqual(defaultView());
  expect(formatViewState(defaultView(), defaultView())).toBe('');
});
