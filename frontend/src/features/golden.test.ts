import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { ViewFrame } from '../core/store/frames';
import { RingStore } from '../core/store/ring_store';
import { frameOf } from '../core/store/test_query';
import type { TensorRecord } from '../protocol/record';
import { decodeRecords } from '../protocol/record_reader';
import { predictionsOf } from './text/predictions';
import { predictionsAt } from './lens/lens_cells';

// The frames of the features from the bytes of the golden file.

function golden(): readonly TensorRecord[] {
  const file = join(import.meta.dirname, '..', '..', '..', 'tests', 'golden', 'record_v1.bin');
  return decodeRecords(Uint8Array.from(readFileSync(file)).buffer);
}

function shown<K extends ViewFrame['kind']>(
  kind: K,
  of: (header: TensorRecord['header']) => boolean,
  pointName: string,
): Extract<ViewFrame, { kind: K }> {
  const record = golden().find(({ header }) => of(header));
  if (record === undefined) throw new Error('the golden file has no such record');
  const store = new RingStore(1e6);
  store.insert(record);
  const { point, entry, plan, phase, direction, promptSet, layer } = record.header;
  const form = kind === 'lens' ? 'topk' : kind;
  return frameOf(store, kind, {
    ...{ point, entry, plan, phase, direction, promptSet, layer, form, pointName },
    firstToken: 0,
  });
}

test('predictions with their softmax, in planes of two and of three', () => {
  const two = shown('topk', ({ shape }) => shape[0] === 4 && shape[3] === 2, 'Logits');
  expect([...(two.softmax?.logSumExp ?? [])]).toEqual([3, 2]);
  expect([...(two.softmax?.entropy ?? [])]).toEqual([1.25, 0.75]);
  expect([...(two.softmax?.loss ?? [])]).toEqual([0.5, Number.NaN]);
  expect([...(two.softmax?.target ?? [])]).toEqual([101, -1]);
  const [best] = predictionsOf(two, 0);
  expect([best.id, best.least]).toEqual([101, best.most]);
  expect(best.most).toBeCloseTo(Math.exp(-0.5), 12);
  const three = shown('topk', ({ shape }) => shape[0] === 4 && shape[3] === 3, 'Logits');
  expect(three.softmax).toMatchObject({
    logSumExp: Float64Array.of(3),
    loss: Float64Array.of(0.5),
  });
});

test('the same records of a lens', () => {
  const lens = shown('lens', ({ shape }) => shape[0] === 4 && shape[3] === 2, 'LogitLens');
  expect(predictionsAt(lens, 0, 0)).toMatchObject([
    { id: 101, score: 2.5, isTarget: true },
    { id: 32, score: 1.5, isTarget: false },
  ]);
  expect([...lens.targets]).toEqual([101, -1]);
});

test('the tokens with the largest number, of which one place is filled', () => {
  const { best } = shown('top_tokens', ({ compressor }) => compressor === 6, 'MLPActivation');
  expect(best).toHaveLength(1);
  expect(best[0]).toMatchObject({ value: 7.5, step: 11, row: 3, position: 2 });
  expect(best[0].ids.slice(13, 18)).toEqual([-1, 97, 98, 99, 100]);
});
