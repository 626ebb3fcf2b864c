import type { CompressorKind } from '../../core/store/compressors';

export const kCompressors: readonly CompressorKind[] = [
  { name: 'topk', code: 5, form: 'topk', hasCurves: false, isByToken: true },
  { name: 'outliers', code: 5, form: 'topk', hasCurves: false, isByToken: true },
];
