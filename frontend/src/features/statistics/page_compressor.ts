import type { Compressor } from '../../core/registry/feature';
import { kCompressors } from './compressor';

/** The compressor `stats`, with the page's texts about it. */
export const kPageCompressors: readonly Compressor[] = kCompressors.map((kind) => ({
  ...kind,
  hasScale: false,
  statistics: [
    ...['rms', 'norm', 'mean', 'std', 'min', 'max', 'zeros', 'nonfinite', 'kurtosis'],
    ...['row_norm_min', 'row_norm_mean', 'row_norm_max'],
    ...['column_norm_min', 'column_norm_mean', 'column_norm_max'],
  ],
  meaningOf: (_, of, unknown) =>
    of === undefined
      ? `a histogram ${unknown}`
      : `a histogram ${of.range === undefined ? 'by powers of two' : `from ${of.range.join(' to ')}`}`,
}));
