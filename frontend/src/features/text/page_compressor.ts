import type { Compressor } from '../../core/registry/feature';
import { kCompressors } from './compressor';

/** The page's part of the compressors `topk` and `outliers`. */
export const kPageCompressors: readonly Compressor[] = kCompressors.map((kind) => ({
  ...kind,
  hasScale: true,
}));
