import { chunk } from '../../core/registry/chunks';
import {
  isEmpty,
  isWhole,
  orElse,
  type PlanCompressor,
  type PlanFeature,
  type PlanRow,
  pointsNamed,
  wholeOf,
} from '../../core/registry/plan_feature';
import { kExactPreset, kMaxListed } from './divergence_words';

const kSlow = 10;

declare module '../../core/registry/plan_feature' {
  interface PlanRow {
    k: string;
  }
}

/** The common part of `topk` and `outliers`: the k best columns of each token. */
const kRanked: Omit<PlanCompressor, 'text'> = {
  // Dtypes of fewer bits cannot hold the numbers of columns.
  dtypes: ['f32', 'f64'],
  takes: (point) => (point?.dims.length ?? 0) <= 3,
  rowOf: (of) => ({ k: String(of.k ?? '') }),
  entryOf: ({ kind, k }) => ({ kind, k: wholeOf(k) }),
  problemOf: ({ k }) => (isEmpty(k) || isWhole(k) ? undefined : ['k', 'a whole number from 1']),
  nameOf: ({ kind, k }) => `${kind} ${orElse(k, '10')}`,
  texts: { o: 'k' },
  fields: { later: chunk(() => import('./k_field.svelte')) },
};

function isRanked({ kind }: PlanRow): boolean {
  return kind === 'topk' || kind === 'outliers';
}

/** The compressors `topk` and `outliers` in the form of the plan, and their presets. */
export const kPlan: PlanFeature = {
  compressors: {
    topk: {
      ...kRanked,
      text: 'The largest columns of each token',
      members: [['k', (row) => (isRanked(row) ? orElse(row.k, '10') : '')]],
    },
    outliers: {
      ...kRanked,
      text: 'The columns of the largest magnitude of each token',
    },
  },
  presetsOf: (run) => [
    {
      name: 'Predictions',
      text: 'The ten best next tokens of each position',
      entries: pointsNamed(run, ['Logits']).map((point) => ({
        point: point.name,
        compressor: { kind: 'topk', k: Math.min(10, point.features) },
      })),
    },
    {
      name: kExactPreset,
      text: `All tokens of the vocabulary at each position, every ${kSlow} steps: exact KL in Compare`,
      entries: pointsNamed(run, ['Logits'])
        .filter(({ features }) => features <= kMaxListed)
        .map(({ name, features }) => ({
          ...{ point: name, every: kSlow, compressor: { kind: 'topk', k: features } },
        })),
    },
  ],
};
