import type { CompressorKind } from '../../core/store/compressors';

export const kCompressors: readonly CompressorKind[] = [
  { name: 'empty', code: 2, form: 'empty', hasCurves: false, isByToken: false },
];
