import type { CompressorKind } from '../../core/store/compressors';

export const kCompressors: readonly CompressorKind[] = [
  { name: 'top_tokens', code: 6, form: 'top_tokens', hasCurves: false, isByToken: false },
];
