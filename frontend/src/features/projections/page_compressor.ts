import type { Compressor } from '../../core/registry/feature';
import { kCompressors } from './compressor';
import { vectorName } from './vector_name';

/** The compressor `projection`, with the page's texts about it. */
export const kPageCompressors: readonly Compressor[] = kCompressors.map((kind) => ({
  ...kind,
  hasScale: true,
  meaningOf: (record, of, unknown) => {
    if (of === undefined) return `projections on vector ${record.vector ?? 0} ${unknown}`;
    const length = of.normalize === false ? ', not divided by its length' : '';
    return `projections on ${vectorName(record, of)}${length}`;
  },
  quantityOf: (numbers, record, of) =>
    of === undefined
      ? `${numbers}, projection (plan ${record.plan})`
      : `${numbers} ${of.normalize === false ? '·' : 'along'} ${vectorName(record, of)}`,
}));
