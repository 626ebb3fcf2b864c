import { describe, expect, test } from 'vitest';
import { RingStore } from './ring_store';
import { makeRecord } from './test_records';
import { frameOf } from './test_query';
import { bestOf } from '../../features/text/topk_view';

describe('attention', () => {
  // Two rows, two heads, two queries, three keys.
  const header = { point: 2, compressor: 0, shape: [2, 2, 2, 3], features: 3 };
  const query = { point: 2 };
  const filled = (change: object = {}): RingStore => {
    const store = new RingStore(1e6);
    const values = Float32Array.from({ length: 24 }, (_, i) => i);
    store.insert(makeRecord({ ...header, ...change }, values));
    return store;
  };

  test('one head of one row: queries down, keys across', () => {
    const frame = frameOf(filled(), 'attention', { ...query, row: 1, head: 1 });
    expect([frame.heads, frame.head, frame.map.rows, frame.map.cols]).toEqual([2, 1, 2, 3]);
    expect([...frame.map.values]).toEqual([18, 19, 20, 21, 22, 23]);
    expect(frameOf(filled(), 'attention', { ...query, head: 9 }).head).toBe(1);
  });

  test('all heads stand beside it, small', () => {
    const { small } = frameOf(filled(), 'attention', { ...query, row: 1 });
    expect(small.map((map) => [...map.values])).toEqual([
      [12, 13, 14, 15, 16, 17],
      [18, 19, 20, 21, 22, 23],
    ]);
    const one = new RingStore(1e6);
    one.insert(makeRecord({ ...header, shape: [1, 1, 2, 3] }, new Float32Array(6)));
    expect(frameOf(one, 'attention', query).small).toEqual([]);
  });

  test('small heads are folded, whole ones hold every number', () => {
    const store = new RingStore(1e6);
    const numbers = Float32Array.from({ length: 2 * 128 * 100 }, (_, i) => i);
    const shape = [1, 2, 128, 100];
    store.insert(makeRecord({ ...header, shape, features: 100 }, numbers.slice()));
    const { small } = frameOf(store, 'attention', query);
    expect(small.map(({ rows, cols }) => [rows, cols])).toEqual([
      [96, 96],
      [96, 96],
    ]);
    const whole = frameOf(store, 'attention', query, 'whole').small;
    expect(whole.map(({ rows, cols }) => [rows, cols])).toEqual([
      [128, 100],
      [128, 100],
    ]);
    expect(whole[1].values).toEqual(numbers.subarray(128 * 100));
  });

  test('queries start at the window of the entry, keys at 0', () => {
    const frame = frameOf(filled(), 'attention', { ...query, firstToken: 1 });
    expect([...frame.queryPositions]).toEqual([1, 2]);
    expect([...frame.positions]).toEqual([0, 1, 2]);
  });

  test('a prompt ends before its filling, down and across', () => {
    const store = filled({ promptSet: 1 });
    const { map } = frameOf(store, 'attention', { ...query, promptSet: 1, lengths: [1, 3] });
    expect([map.rows, map.cols, ...map.values]).toEqual([1, 1, 0]);
  });

  test('tiles of keys are no tokens', () => {
    const store = filled({ compressor: 1, features: 12 });
    const tokens = { point: 8, layer: 0, compressor: 0, shape: [2, 1, 3] };
    store.insert(makeRecord(tokens, Int32Array.of(65, 66, 67, 0, 1, 2)));
    const frame = frameOf(store, 'attention', query);
    expect([...(frame.queryTokens ?? [])]).toEqual([65, 66]);
    expect([frame.keys, frame.map.cols, frame.tokens]).toEqual([12, 3, null]);
  });
});

describe('stats', () => {
  const numbers = (mean: number, std: number, ...bins: number[]): Float32Array<ArrayBuffer> =>
    Float32Array.of(8, mean, std, -1, 1, 2, 0, 0, 0, 0, ...bins);
  const header = { compressor: 3, shape: [12] };
  const query = { form: 'stats' as const };

  test('the second row is no histogram', () => {
    const store = new RingStore(1e6);
    const second = Float32Array.of(...Array.from({ length: 12 }, () => 99));
    const both = Float32Array.of(...numbers(1, 0.5, 3, 5), ...second);
    store.insert(makeRecord({ ...header, shape: [2, 12], step: 1, layer: 1 }, both));
    expect([...frameOf(store, 'stats', query).bins]).toEqual([3, 5]);
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
    expect(frame.table[10]).toBeNaN();
    expect([...frame.bins]).toEqual([8, 0]);
    expect(frame.history.steps).toEqual([1, 2, 3]);
    const none = [null, null, null];
    expect(frame.history.lines.mean).toEqual([[1, 2, 3], none, [-1, null, -3]]);
    expect(frame.history.lines.std).toEqual([[0.5, 0.5, 0.5], none, [NaN, null, NaN]]);
    expect(frame.history.lines.norm[0]).toEqual([2, 2, 2]);
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

  test('a step of another plan is not in the lines: it may mean something else', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({ ...header, step: 1, plan: 1 }, numbers(1, 1, 0, 0)));
    store.insert(makeRecord({ ...header, step: 2, plan: 2 }, numbers(2, 1, 0, 0)));
    expect(frameOf(store, 'stats', { ...query, plan: 2 }).history.steps).toEqual([2]);
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

describe('projection', () => {
  // Two prompts of at most three tokens on two vectors.
  const header = { compressor: 4, promptSet: 1, phase: 1, shape: [2, 3, 2] };
  const query = { form: 'projection' as const, promptSet: 1 };
  const values = Float32Array.of(1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 0, 0);
  const filled = (): RingStore => {
    const store = new RingStore(1e6);
    for (const step of [5, 10]) store.insert(makeRecord({ ...header, step }, values.slice()));
    return store;
  };

  test('layers by tokens on the chosen vector', () => {
    const frame = frameOf(filled(), 'projection', { ...query, vector: 1 });
    expect([frame.vectors, frame.vector]).toEqual([2, 1]);
    expect([...frame.layerMap.values]).toEqual([10, 20, 30]);
    expect(frameOf(filled(), 'projection', { ...query, vector: 7 }).vector).toBe(1);
  });

  test('the last token and the mean over the steps, by layer', () => {
    const { history } = frameOf(filled(), 'projection', query);
    expect(history.steps).toEqual([5, 10]);
    expect(history.lines).toEqual({ last: [[3, 3]], mean: [[2, 2]] });
  });

  test('an alarm has every step, of the layer asked for alone', () => {
    const store = new RingStore(1e8);
    for (let step = 1; step <= 1200; step++) {
      for (const layer of [1, 2, 3]) {
        store.insert(
          makeRecord(
            { ...header, step, layer },
            values.map((value) => step * value),
          ),
        );
      }
    }
    const { history } = frameOf(store, 'projection', { ...query, layer: 2 }, 'line');
    const steps = Array.from({ length: 1200 }, (_, i) => i + 1);
    expect(history.steps).toEqual(steps);
    expect(history.lines.last).toEqual([[], steps.map((step) => 3 * step), []]);
    expect(frameOf(store, 'projection', { ...query, layer: 4 }, 'line').history.lines.last).toEqual(
      [[], [], []],
    );
  });

  test('an alarm sees a projection that overflows', () => {
    const store = new RingStore(1e6);
    [1, Infinity, NaN].forEach((value, step) => {
      store.insert(makeRecord({ ...header, step }, new Float32Array(12).fill(value)));
    });
    const { lines } = frameOf(store, 'projection', query, 'line').history;
    expect(lines.last).toEqual([[1, Infinity, NaN]]);
  });

  test('of a short prompt its own last token, not the filling', () => {
    const lengths = [3, 2];
    const short = frameOf(filled(), 'projection', { ...query, lengths, row: 1, vector: 1 });
    expect(short.history.lines).toEqual({ last: [[50, 50]], mean: [[45, 45]] });
    // The sums that are kept of a record know for which lengths they were made.
    const store = filled();
    frameOf(store, 'projection', { ...query, row: 1 });
    const again = frameOf(store, 'projection', { ...query, lengths, row: 1 });
    expect(again.history.lines).toEqual({ last: [[5, 5]], mean: [[4.5, 4.5]] });
  });
});

describe('topk', () => {
  test('planes behind the columns are no candidates', () => {
    const store = new RingStore(1e6);
    const header = { point: 23, layer: 0, compressor: 5, shape: [3, 1, 2, 2] };
    const softmax = [1, 2, Number.NaN, Number.NaN];
    store.insert(makeRecord(header, Float32Array.of(9, 8, 7, 6, 1, 2, 3, 4, ...softmax)));
    const frame = frameOf(store, 'topk', { point: 23, form: 'topk' as const });
    expect([...frame.map.values]).toEqual([9, 7, 8, 6]);
    expect([...frame.ids]).toEqual([1, 3, 2, 4]);
  });

  test('the best of every token, with their columns', () => {
    const store = new RingStore(1e6);
    // Values of two rows of two tokens, then the columns.
    const values = [9, 8, 7, 6, 5, 4, 3, Number.NaN];
    const ids = [101, 102, 103, 104, 105, 106, 107, 108];
    const header = { point: 23, layer: 0, compressor: 5, shape: [2, 2, 2, 2] };
    store.insert(makeRecord(header, Float32Array.of(...values, ...ids)));
    const query = { point: 23, form: 'topk' as const };
    const frame = frameOf(store, 'topk', query);
    expect([frame.map.rows, frame.map.cols]).toEqual([2, 2]);
    expect([...frame.map.values]).toEqual([9, 7, 8, 6]);
    expect([...frame.ids]).toEqual([101, 103, 102, 104]);
    expect(bestOf(frame, 1)).toEqual([
      { rank: 0, id: 103, value: 7 },
      { rank: 1, id: 104, value: 6 },
    ]);
    expect(bestOf(frame, 2)).toEqual([]);
    expect(bestOf(frameOf(store, 'topk', { ...query, row: 1 }), 0)[0].id).toBe(105);
  });
});
