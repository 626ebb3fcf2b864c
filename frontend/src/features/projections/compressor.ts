import type { CompressorKind } from '../../core/store/compressors';

export const kCompressors: readonly CompressorKind[] = [
  { name: 'projection', code: 4, form: 'projection', hasCurves: true, isByToken: true },
];
