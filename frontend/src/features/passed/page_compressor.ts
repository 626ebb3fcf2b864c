import type { Compressor } from '../../core/registry/feature';
import { kCompressors } from './compressor';

/** What the page says of records without numbers. */
export const kPageCompressors: readonly Compressor[] = kCompressors.map((kind) => ({
  ...kind,
  hasScale: false,
}));
