import type { Compressor } from '../../core/registry/feature';
import { kCompressors } from './compressor';

/** The compressor `stats`, with the page's texts about it. */
export const kPageCompressors: readonly Compressor[] = kCompressors.map((kind) => ({
  ...kind,
  hasScale: false,
  meaningOf: (_, of, unknown) =>
    of === undefined
      ? `a histogram ${unknown}`
      : `a histogram ${of.range === undefined ? 'by powers of two' : `from ${of.range.join(' to ')}`}`,
}));
