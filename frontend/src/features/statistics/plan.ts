import { chunk } from '../../core/registry/chunks';
import {
  isEmpty,
  isWhole,
  orElse,
  type PlanCompressor,
  type PlanFeature,
  type Preset,
  type PresetRun,
  wholeOf,
} from '../../core/registry/plan_feature';
import type { PlanEntry } from '../../protocol/messages';

declare module '../../core/registry/plan_feature' {
  interface PlanRow {
    /** The range of the histogram: "low:high", or '' for powers of two. */
    range: string;
    bins: string;
  }
}

const kSlow = 10;

const kStats: PlanCompressor = {
  text: 'Mean, deviation, norm, histogram …',
  // Dtypes of fewer bits cannot hold the counts.
  dtypes: ['f32', 'f64'],
  rowOf: (of) => ({
    range: of.range?.join(':') ?? '',
    // Without a range, the number of bins cannot be chosen.
    bins: of.range === undefined ? '' : String(of.bins ?? ''),
  }),
  entryOf: ({ kind, range: typed, bins }) => {
    const range = rangeOf(typed);
    return { kind, range, bins: range === undefined ? undefined : wholeOf(bins) };
  },
  problemOf: ({ range, bins }) => {
    if (!isEmpty(range) && rangeOf(range) === undefined) {
      return ['range', 'low:high, such as -4:4'];
    }
    return isEmpty(bins) || isWhole(bins) ? undefined : ['bins', 'a whole number from 1'];
  },
  summaryOf: ({ range }) => (range === '' ? [] : [`histogram ${range}`]),
  members: [
    ['histogram', (row) => (row.kind === 'stats' ? orElse(row.range, '|x|') : '')],
    ['bins', (row) => (row.kind === 'stats' && row.range !== '' ? orElse(row.bins, '64') : '')],
  ],
  texts: { h: 'range', n: 'bins' },
  unused: ({ range }) => (isEmpty(range) ? { range: '', bins: '' } : {}),
  fields: { later: chunk(() => import('./histogram_fields.svelte')) },
};

function rangeOf(text: string): readonly [number, number] | undefined {
  const ends = text.split(':').map((end) => (isEmpty(end) ? Number.NaN : Number(end)));
  const [low, high] = ends;
  if (ends.length !== 2 || !Number.isFinite(low) || !Number.isFinite(high)) return undefined;
  return low < high ? [low, high] : undefined;
}

function statsOf(point: string): PlanEntry {
  return { point, every: kSlow, compressor: { kind: 'stats' } };
}

function presetsOf(run: PresetRun): readonly Preset[] {
  // The points that the model computes. Derived points are computed only for the plan, at a cost.
  const points = run.points.filter(
    ({ features, formula, gradient_placement }) =>
      features > 0 && (formula === undefined || gradient_placement !== undefined),
  );
  return [
    {
      name: 'Statistics of everything',
      text: `All points, histogram and moments, every ${kSlow} steps`,
      entries: points.map(({ name }) => statsOf(name)),
    },
    {
      name: 'Gradients: norms',
      text: `Statistics of every gradient, every ${kSlow} steps`,
      entries: points
        .filter((point) => point.gradient_placement !== undefined)
        .map(({ name }) => ({ ...statsOf(name), direction: 'gradient' as const })),
    },
  ];
}

/** The compressor `stats` in the form of the plan, and its presets. */
export const kPlan: PlanFeature = { compressors: { stats: kStats }, presetsOf };
