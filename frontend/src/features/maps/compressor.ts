import type { CompressorKind } from '../../core/store/compressors';

export const kCompressors: readonly CompressorKind[] = [
  { name: 'none', code: 0, form: 'values', hasCurves: false, isByToken: true, isPlain: true },
  { name: 'tile', code: 1, form: 'values', hasCurves: false, isByToken: true, isPlain: true },
];
