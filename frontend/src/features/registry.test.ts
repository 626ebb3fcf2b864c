import { expect, test } from 'vitest';
import { compressorName, compressorNames, formOf, formOfPlan } from '../core/store/compressors';

test('records and plans name the compressors of the features', () => {
  expect(compressorName(5)).toBe('topk');
  expect(compressorName(99)).toBe('compressor 99');
  expect([formOf(5), formOfPlan('outliers'), formOf(99)]).toEqual(['topk', 'topk', 'other']);
  expect(compressorNames()).toEqual([
    ...['none', 'tile', 'empty', 'stats', 'projection', 'topk', 'outliers', 'top_tokens'],
  ]);
});
