import type { Compressor } from '../../core/registry/feature';
import { kCompressors } from './compressor';

/** The page's part of the compressor `empty`: its records have no numbers. */
export const kPageCompressors: readonly Compressor[] = kCompressors.map((kind) => ({
  ...kind,
  hasScale: false,
}));
