import { describe, expect, test } from 'vitest';
import { aggregateOf, tileName } from './maps/tile_words';
import { countsOf } from './statistics/counts';
import { lossUnit, numbersOf, quantityOf, tileColumns } from '../ui/quantities';
import { vectorName } from './projections/vector_name';

const [kNone, kTile, kStats, kProjection] = [0, 1, 3, 4];
const kHidden = 'activation';

const at = (
  numbers: string,
  compressor: number,
  direction = 0,
): Parameters<typeof quantityOf>[0] => ({
  query: { numbers, direction },
  compressor,
  plan: 6,
});

describe('quantities', () => {
  test('are what the model computes at a point, or what flows back through it', () => {
    expect(numbersOf({ numbers: 'logit', direction: 0 })).toBe('logit');
    expect(numbersOf({ numbers: 'logit', direction: 1 })).toBe('gradient of the loss');
  });

  test('tell what a compressor made of them', () => {
    expect(quantityOf(at(kHidden, kNone), undefined)).toBe('activation');
    expect(quantityOf(at(kHidden, kStats), undefined)).toBe('activation');
    expect(quantityOf(at(kHidden, kTile), { kind: 'tile' })).toBe('activation, mean over tile');
    expect(quantityOf(at(kHidden, kTile, 1), { kind: 'tile', method: 'absmax' })).toBe(
      'gradient of the loss, largest |x| over tile',
    );
    expect(quantityOf(at(kHidden, kTile), { kind: 'tile', method: 'data.std(dim=-1)' })).toBe(
      'activation, data.std(dim=-1) over tile',
    );
  });

  test('name the vector of a projection, and whether its length counts', () => {
    const of = { kind: 'projection', vectors: ['evil', 'kind'] };
    // The frame's vector: the query may ask for a vector that does not exist.
    expect(quantityOf({ ...at(kHidden, kProjection), vector: 1 }, of)).toBe(
      'activation along kind',
    );
    expect(quantityOf(at(kHidden, kProjection), { ...of, normalize: false })).toBe(
      'activation · evil',
    );
    expect(quantityOf(at(kHidden, kProjection), { ...of, cosine: true })).toBe(
      'activation, cosine with evil',
    );
    expect(quantityOf({ ...at(kHidden, kProjection), vector: 3 }, of)).toBe(
      'activation along vector 3',
    );
  });

  test('of a plan that is not known they tell its number alone', () => {
    expect(quantityOf(at(kHidden, kTile), undefined)).toBe('activation, tile (plan 6)');
    expect(quantityOf(at(kHidden, kProjection), undefined)).toBe('activation, projection (plan 6)');
    expect(tileName(at(kHidden, kTile), undefined)).toBe('tile (plan 6)');
    expect(tileName(at(kHidden, kTile), { kind: 'tile' })).toBe('tile mean');
    expect(vectorName({ plan: 6, vector: 1 }, undefined)).toBe('vector 1 (plan 6)');
    expect(countsOf(at(kHidden, kStats), undefined)).toBe('count, stats (plan 6)');
    expect(countsOf(at(kHidden, kStats), { kind: 'stats' })).toBe('count by |activation|');
  });

  test('a tile is named by its columns, several by all of theirs', () => {
    expect([tileColumns(16, 4, 3), tileColumns(4, 4, 3)]).toEqual(['12–15', '3']);
    expect([tileColumns(7, 3, 1), tileColumns(7, 3, 1, 2)]).toEqual(['2–3', '2–6']);
  });

  test('a layer map tells what it takes the mean or the largest of', () => {
    expect(aggregateOf({ compressor: kTile }, 'mean')).toBe('mean over tiles');
    expect(aggregateOf({ compressor: kNone }, 'absmax')).toBe('largest |x| over columns');
  });

  test('the loss is counted by the tokens that there are', () => {
    expect(lossUnit('byte')).toBe('nats/byte');
    expect(lossUnit('bpe')).toBe('nats/token');
  });
});
