import type { Compressor } from '../../core/registry/feature';
import { kCompressors } from './compressor';

/** What the page says of the largest columns. */
export const kPageCompressors: readonly Compressor[] = kCompressors.map((kind) => ({
  ...kind,
  hasScale: true,
}));
