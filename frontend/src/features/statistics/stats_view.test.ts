import { describe, expect, test } from 'vitest';
import { kStatNames } from './frame';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';

describe('stats', () => {
  const numbers = (mean: number, std: number, ...bins: number[]): Float32Array<ArrayBuffer> =>
    Float32Array.of(8, mean, std, -1, 1, 2, 0, 0, 0, 0, ...bins);
  const header = { compressor: 3, shape: [12] };
  const query = { form: 'stats' as const };

  test('the second row tells kurtosis, root mean square and norms, and is no histogram', () => {
    const store = new RingStore(1e6);
    const more = [3.5, 0.75, 1, 2, 4, 5, 6, 7, Number.NaN, Number.NaN, Number.NaN, Number.NaN];
    const both = Float32Array.of(...numbers(1, 0.5, 3, 5), ...more);
    store.insert(makeRecord({ ...header, shape: [2, 12], step: 1, layer: 1 }, both));
    const { table, bins, history } = frameOf(store, 'stats', query);
    expect([...bins]).toEqual([3, 5]);
    const told = Object.fromEntries(kStatNames.map((name, i) => [name, table[i]]));
    expect(told).toMatchObject({ norm: 2, kurtosis: 3.5, rms: 0.75 });
    expect(told['row norm, largest']).toBe(4);
    expect(told['column norm, smallest']).toBe(5);
    expect(history.lines).toMatchObject({
      rms: [[0.75]],
      row_norm_mean: [[2]],
      column_norm_mean: [[6]],
    });
    expect(history.lines).toMatchObject({ min: [[-1]], max: [[1]], zeros: [[0]] });
  });

  test('of a record of an earlier version the root mean square comes from norm and count', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({ ...header, step: 1, layer: 1 }, numbers(1, 0.5, 3, 5)));
    const { history } = frameOf(store, 'stats', query);
    expect(history.lines.rms[0][0]).toBeCloseTo(2 / Math.sqrt(8), 12);
    expect(history.lines.kurtosis[0][0]).toBeNaN();
  });

  test('a table of the layers, the histogram of one, and lines over the steps', () => {
    const store = new RingStore(1e6);
    for (const step of [1, 2, 3]) {
      store.insert(makeRecord({ ...header, step, layer: 1 }, numbers(step, 0.5, 3, 5)));
      if (step !== 2) {
        store.insert(makeRecord({ ...header, step, layer: 3 }, numbers(-step, Number.NaN, 8, 0)));
      }
    }
    const frame = frameOf(store, 'stats', { ...query, layer: 3 });
    expect(frame.layers).toEqual([1, 2, 3]);
    expect([...frame.table.subarray(0, 3)]).toEqual([8, 3, 0.5]);
    expect(frame.table[kStatNames.length]).toBeNaN();
    expect([...frame.bins]).toEqual([8, 0]);
    expect(frame.history.steps).toEqual([1, 2, 3]);
    const none = [null, null, null];
    expect(frame.history.lines.mean).toEqual([[1, 2, 3], none, [-1, null, -3]]);
    expect(frame.history.lines.std).toEqual([[0.5, 0.5, 0.5], none, [NaN, null, NaN]]);
    expect(frame.departure).toBeNull();
  });

  test('NaN and Inf are counted together, and the first layer that has one is told', () => {
    const store = new RingStore(1e6);
    for (const step of [1, 2, 3]) {
      const broken = numbers(0, 1, 4, 4);
      if (step > 1) broken.set([1, 2, 3], 7);
      store.insert(makeRecord({ ...header, step, layer: 1 }, numbers(0, 1, 4, 4)));
      store.insert(makeRecord({ ...header, step, layer: 2 }, broken));
    }
    const { history, departure } = frameOf(store, 'stats', query);
    expect(history.lines.bad).toEqual([
      [0, 0, 0],
      [0, 6, 6],
    ]);
    expect(departure).toEqual({ layer: 2, step: 2, bad: 6, times: 0 });
  });

  test('a layer that comes late is looked at too', () => {
    const store = new RingStore(1e6);
    for (const step of [1, 2]) {
      store.insert(makeRecord({ ...header, step }, numbers(0, 1, 4, 4)));
    }
    expect(frameOf(store, 'stats', query).departure).toBeNull();
    const broken = numbers(0, 1, 4, 4);
    broken[8] = 1;
    store.insert(makeRecord({ ...header, step: 1, layer: 2 }, broken));
    expect(frameOf(store, 'stats', query).departure).toMatchObject({ layer: 2, step: 1 });
  });

  test('ridges: of one layer over the steps, of all layers at this one', () => {
    const store = new RingStore(1e6);
    for (const step of [4, 5]) {
      for (const layer of [1, 3]) {
        store.insert(makeRecord({ ...header, step, layer }, numbers(0, 1, step, layer)));
      }
    }
    const { stepRidge, layerRidge } = frameOf(store, 'stats', { ...query, layer: 3 });
    expect(stepRidge).toEqual({ names: [4, 5], bins: Float64Array.of(4, 3, 5, 3) });
    expect(layerRidge).toEqual({ names: [1, 3], bins: Float64Array.of(5, 1, 5, 3) });
  });

  test('each micro-batch has its own', () => {
    const store = new RingStore(1e6);
    for (const microBatch of [0, 3]) {
      store.insert(makeRecord({ ...header, microBatch }, numbers(microBatch, 1, 0, 0)));
    }
    const frame = frameOf(store, 'stats', { ...query, row: 1 });
    expect([frame.rowNames, frame.rowKind]).toEqual([[0, 3], 'micro-batch']);
    expect([frame.table[1], frame.history.lines.mean]).toEqual([3, [[3]]]);
  });

  test('the lines go on through plans where the entry holds the same, and only there', () => {
    const store = new RingStore(1e6);
    const stats = { point: 'HiddenStates', compressor: { kind: 'stats' } };
    const bins = { point: 'HiddenStates', compressor: { kind: 'stats', range: [-1, 1] as const } };
    store.learn({ number: 1, entries: [bins, stats] });
    store.learn({ number: 2, entries: [{ ...stats, layers: '1' }] });
    store.learn({ number: 3, entries: [bins] });
    store.insert(makeRecord({ ...header, step: 1, plan: 1, entry: 0 }, numbers(7, 1, 0, 0)));
    store.insert(makeRecord({ ...header, step: 1, plan: 1, entry: 1 }, numbers(1, 1, 0, 0)));
    store.insert(makeRecord({ ...header, step: 2, plan: 2, entry: 0 }, numbers(2, 1, 0, 0)));
    store.insert(makeRecord({ ...header, step: 3, plan: 9, entry: 0 }, numbers(9, 1, 0, 0)));
    const { history } = frameOf(store, 'stats', { ...query, plan: 2, step: 2 });
    expect([history.steps, history.lines.mean[0]]).toEqual([
      [1, 2],
      [1, 2],
    ]);
    const other = frameOf(store, 'stats', { ...query, plan: 3, step: 1 });
    expect([other.history.steps, other.history.lines.mean[0]]).toEqual([[1], [7]]);
  });

  test('a spike is in the curves however long they are', () => {
    const store = new RingStore(1e8);
    for (let step = 1; step <= 5000; step++) {
      store.insert(makeRecord({ ...header, step }, numbers(step === 3003 ? 99 : 0, 1, 0, 0)));
    }
    const { steps, lines } = frameOf(store, 'stats', query).history;
    expect(lines.mean[0][steps.indexOf(3003)]).toBe(99);
  });

  test('the first departure is found at any step, and stays while steps arrive', () => {
    const store = new RingStore(1e8);
    const found: unknown[] = [];
    for (let step = 1; step <= 2100; step++) {
      for (const layer of [1, 2]) {
        const broken = numbers(0, 1, 4, 4);
        if ((step === 997 && layer === 2) || (step === 1300 && layer === 1)) broken[7] = 3;
        store.insert(makeRecord({ ...header, step, layer }, broken));
      }
      if (step > 2095) found.push(frameOf(store, 'stats', query).departure);
    }
    expect(found).toEqual(found.map(() => ({ layer: 2, step: 997, bad: 3, times: 0 })));
  });
});
