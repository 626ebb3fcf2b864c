import type { Compressor } from '../../core/registry/feature';
import { kCompressors } from './compressor';
import { methodName } from './tile_words';

const kTile: Pick<Compressor, 'meaningOf' | 'quantityOf'> = {
  meaningOf: (_, of, unknown) =>
    of === undefined ? `tile ${unknown}` : `the ${of.method ?? 'mean'} of each tile`,
  quantityOf: (numbers, { plan }, of) =>
    of === undefined
      ? `${numbers}, tile (plan ${plan})`
      : `${numbers}, ${methodName(of.method)} over tile`,
};

/** The compressors `none` and `tile`, with the page's texts about them. */
export const kPageCompressors: readonly Compressor[] = kCompressors.map((kind) => ({
  ...kind,
  hasScale: true,
  ...(kind.name === 'none' ? { statistics: ['value'] } : {}),
  ...(kind.name === 'tile' ? kTile : {}),
}));
