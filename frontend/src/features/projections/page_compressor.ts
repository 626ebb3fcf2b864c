import type { Compressor } from '../../core/registry/feature';
import type { CompressorFacts } from '../../protocol/messages';
import { kCompressors } from './compressor';
import { vectorName } from './vector_name';

/** The compressor `projection`, with the page's texts about it. */
export const kPageCompressors: readonly Compressor[] = kCompressors.map((kind) => ({
  ...kind,
  hasScale: true,
  meaningOf: (record, of, unknown) => {
    if (of === undefined) return `projections on vector ${record.vector ?? 0} ${unknown}`;
    const vector = vectorName(record, of);
    if (of.cosine === true) return `cosines with ${vector}`;
    const length = of.normalize === false ? ', not divided by its length' : '';
    return `projections on ${vector}${length}`;
  },
  quantityOf: (numbers, record, of) =>
    of === undefined
      ? `${numbers}, projection (plan ${record.plan})`
      : `${numbers}${relationOf(of)} ${vectorName(record, of)}`,
}));

function relationOf({ normalize, cosine }: CompressorFacts): string {
  if (cosine === true) return ', cosine with';
  return normalize === false ? ' ·' : ' along';
}
