import type { CompressorKind } from '../../core/store/compressors';

export const kCompressors: readonly CompressorKind[] = [
  { name: 'stats', code: 3, form: 'stats', hasCurves: true, isByToken: false },
];
