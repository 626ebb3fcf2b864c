import type { Compressor } from '../../core/registry/feature';
import type { PointFacts } from '../../protocol/messages';
import { defaultKind } from '../../core/session/watched';
import { kCompressors } from './compressor';

/** The page's part of the compressors `topk` and `outliers`. */
export const kPageCompressors: readonly Compressor[] = kCompressors.map((kind) => ({
  ...kind,
  hasScale: true,
  // Only scores over the vocabulary have a loss and an entropy.
  ...(kind.name === 'topk'
    ? {
        statistics: ['loss', 'entropy', 'log_sum_exp'],
        hasStatistics: (point: PointFacts) => defaultKind(point) === 'topk',
      }
    : {}),
}));
