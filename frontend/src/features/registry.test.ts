import { expect, test } from 'vitest';
import { compressorName, compressorNames, formOf, formOfPlan } from '../core/store/compressors';

test('records and plans name the compressors of the features', () => {
  expect(compressorName(5)).toBe('topk');
  expect(compressorName(7)).toBe('compressor 7');
  expect([formOf(5), formOfPlan('outliers'), formOf(7)]).toEqual(['topk', 'topk', 'other']);
  expect(compressorNames()).toEqual([
    ...['none', 'tile', 'empty', 'stats', 'projection', 'topk', 'outliers'],
  ]);
});
