import { expect, test } from 'vitest';
import type { CompressorFacts } from '../../protocol/messages';
import { kTestQuery } from '../../core/store/test_query';
import { differenceOf, type Held } from './meanings';

const [kNone, kTile, kStats, kProjection] = [0, 1, 3, 4];

function held(compressor: number, of?: Omit<CompressorFacts, 'kind'>, change = {}): Held {
  const frame = { query: kTestQuery, compressor, plan: 1, vector: 0, ...change };
  return { frame, of: of === undefined ? undefined : { kind: '', ...of }, runId: '5f0c' };
}

test('equal entries have a difference', () => {
  expect(differenceOf(held(kTile, {}), held(kTile, { method: 'mean' }))).toBeUndefined();
  expect(differenceOf(held(kNone), held(kNone, {}))).toBeUndefined();
  // For records of two compressors, `compareFrames` gives the reason.
  expect(differenceOf(held(kNone), held(kTile, {}))).toBeUndefined();
});

test('what counts differently is named', () => {
  expect(differenceOf(held(kTile, {}), held(kTile, { method: 'sum' }))).toBe(
    'A has the mean of each tile, B has the sum of each tile: they cannot be subtracted.',
  );
  const vectors = ['evil', 'kind'];
  expect(
    differenceOf(held(kProjection, { vectors }), held(kProjection, { vectors }, { vector: 1 })),
  ).toMatch(/projections on evil, B has projections on kind/);
  expect(
    differenceOf(held(kProjection, { vectors }), held(kProjection, { vectors, cosine: true })),
  ).toMatch(/projections on evil, B has cosines with evil/);
  expect(differenceOf(held(kStats, { range: [0, 1] }), held(kStats, {}))).toMatch(
    /histogram from 0 to 1, B has a histogram by powers of two/,
  );
});

test('of a plan that is not known only records of the same plan have a difference', () => {
  expect(differenceOf(held(kTile), held(kTile))).toBeUndefined();
  expect(differenceOf(held(kTile), held(kTile, {}))).toBe(
    'A has tile (plan 1 of run 5f0c), B has the mean of each tile: they cannot be subtracted.',
  );
  expect(differenceOf(held(kTile), held(kTile, undefined, { plan: 2 }))).toMatch(/plan 2/);
  const other = { ...held(kTile), runId: '77' };
  expect(differenceOf(held(kTile), other)).toMatch(/plan 1 of run 77/);
  const vectors = held(kProjection, undefined, { vector: 1 });
  expect(differenceOf(held(kProjection), vectors)).toMatch(/vector 0.*vector 1/);
});
