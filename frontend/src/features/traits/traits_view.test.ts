import { describe, expect, test } from 'vitest';
import { RingStore } from '../../core/store/ring_store';
import { frameOf } from '../../core/store/test_query';
import { makeRecord } from '../../core/store/test_records';
import type { TraitsFrame } from './frame';

describe('traits', () => {
  // Two prompts, the second one token shorter, on two vectors.
  const header = { compressor: 4, promptSet: 1, phase: 1, shape: [2, 3, 2] };
  const query = { form: 'projection' as const, promptSet: 1, traits: true };
  const values = Float32Array.of(1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 100, 100);
  const lengths = [3, 2];

  function storeOf(...places: readonly (readonly [step: number, layer: number])[]): RingStore {
    const store = new RingStore(1e6);
    for (const [step, layer] of places) {
      const numbers = values.map((value) => value + 1000 * (layer - 1) + step);
      store.insert(makeRecord({ ...header, step, layer }, numbers));
    }
    return store;
  }

  function numbersOf({ overSteps }: TraitsFrame, over: 'mean' | 'last', vector: number): number[] {
    const cells = overSteps.absent.length;
    return [...overSteps[over].subarray(vector * cells, (vector + 1) * cells)];
  }

  test('the records of projections are traits only for a query that wants them', () => {
    const store = storeOf([0, 1]);
    expect(frameOf(store, 'projection', { ...query, traits: false }).kind).toBe('projection');
    expect(frameOf(store, 'traits', query)).toMatchObject({ kind: 'traits', vectors: 2 });
  });

  test('each vector: the mean over all tokens of all rows, and over the last tokens', () => {
    const frame = frameOf(storeOf([10, 1], [20, 1]), 'traits', { ...query, lengths });
    expect(frame.overSteps.steps).toEqual([10, 20]);
    // The filling after the second prompt does not count.
    expect(numbersOf(frame, 'mean', 0)).toEqual([13, 23]);
    expect(numbersOf(frame, 'mean', 1)).toEqual([40, 50]);
    expect(numbersOf(frame, 'last', 0)).toEqual([14, 24]);
    expect(numbersOf(frame, 'last', 1)).toEqual([50, 60]);
  });

  test('micro-batches of one layer and step count together', () => {
    const store = new RingStore(1e6);
    const of = { ...header, promptSet: 0, phase: 0, shape: [1, 2, 1] };
    store.insert(makeRecord({ ...of, microBatch: 0, firstRow: 0 }, Float32Array.of(1, 3)));
    store.insert(makeRecord({ ...of, microBatch: 1, firstRow: 1 }, Float32Array.of(5, 11)));
    const frame = frameOf(store, 'traits', { form: 'projection', traits: true });
    expect([numbersOf(frame, 'mean', 0), numbersOf(frame, 'last', 0)]).toEqual([[5], [7]]);
    expect(frame.rowNames).toEqual([0, 1]);
  });

  test('a layer without a record at a step is absent there', () => {
    const frame = frameOf(storeOf([10, 1], [10, 2], [20, 2]), 'traits', { ...query, lengths });
    expect(frame.layers).toEqual([1, 2]);
    expect([...frame.overSteps.absent]).toEqual([0, 1, 0, 0]);
    expect(numbersOf(frame, 'mean', 0)).toEqual([13, 0, 1013, 1023]);
  });

  test('the tokens of the chosen row on the chosen vector', () => {
    const store = storeOf([10, 1], [10, 2]);
    const frame = frameOf(store, 'traits', { ...query, lengths, row: 1, vector: 1, layer: 2 });
    expect([frame.vector, frame.layer, frame.layerMap.cols]).toEqual([1, 2, 2]);
    expect([...frame.layerMap.values]).toEqual([50, 60, 1050, 1060]);
    expect(frameOf(store, 'traits', { ...query, vector: 9 }).vector).toBe(1);
  });

  test('of very many steps the first and the newest stay', () => {
    const steps = Array.from({ length: 1500 }, (_, step) => [step + 1, 1] as const);
    const frame = frameOf(storeOf(...steps), 'traits', query);
    expect(frame.overSteps.steps.length).toBeLessThanOrEqual(1000);
    expect([frame.overSteps.steps[0], frame.overSteps.steps.at(-1)]).toEqual([1, 1500]);
    const whole = frameOf(storeOf(...steps), 'traits', query, 'whole');
    expect(whole.overSteps.steps).toHaveLength(1500);
  });

  test('a prompt without a response is not part of the mean', () => {
    const store = new RingStore(1e6);
    const of = { ...header, shape: [3, 1, 2] };
    const nan = Number.NaN;
    store.insert(makeRecord({ ...of, step: 10 }, Float32Array.of(1, 10, nan, nan, 3, 30)));
    store.insert(makeRecord({ ...of, step: 20 }, new Float32Array(6).fill(nan)));
    const frame = frameOf(store, 'traits', { ...query, ofResponses: true });
    expect(numbersOf(frame, 'mean', 0)[0]).toBe(2);
    expect(numbersOf(frame, 'last', 1)[0]).toBe(20);
    // No prompt has a response at step 20, so this step has no mean.
    expect([...frame.overSteps.absent]).toEqual([0, 1]);
    // The kept sums of a record are used only for queries of the same kind.
    expect(numbersOf(frameOf(store, 'traits', query), 'mean', 0)).toEqual([nan, nan]);
  });

  test('a NaN stays a NaN, and is not absent', () => {
    const store = new RingStore(1e6);
    store.insert(makeRecord({ ...header, shape: [1, 2, 1] }, Float32Array.of(1, Number.NaN)));
    const frame = frameOf(store, 'traits', query);
    expect(numbersOf(frame, 'mean', 0)).toEqual([Number.NaN]);
    expect([...frame.overSteps.absent]).toEqual([0]);
  });
});
