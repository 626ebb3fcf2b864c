import type { Compressor } from '../../core/registry/feature';
import { kCompressors } from './compressor';

/** What the page says of top activating tokens. */
export const kPageCompressors: readonly Compressor[] = kCompressors.map((kind) => ({
  ...kind,
  hasScale: false,
  meaningOf: () => 'the tokens with the largest numbers over the run',
}));
