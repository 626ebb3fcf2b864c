import type { Compressor } from '../../core/registry/feature';
import { kCompressors } from './compressor';

/** The compressor `top_tokens`, with the page's texts about it. */
export const kPageCompressors: readonly Compressor[] = kCompressors.map((kind) => ({
  ...kind,
  hasScale: false,
  meaningOf: () => 'the tokens with the largest numbers over the run',
}));
