import { chunk } from '../../core/registry/chunks';
import {
  isEmpty,
  isWhole,
  orElse,
  type PlanCompressor,
  type PlanFeature,
  type PlanRow,
  pointsNamed,
  type Preset,
  type PresetRun,
  wholeOf,
} from '../../core/registry/plan_feature';
import { columnsOf } from './units';

declare module '../../core/registry/plan_feature' {
  interface PlanRow {
    /** The features of top_tokens, such as "3, 17"; '' if directions are chosen. */
    columns: string;
  }
}

const kMaxColumns = 32;

const kTopTokens: PlanCompressor = {
  text: 'The tokens with the largest numbers of the run, with their text',
  dtypes: ['f32', 'f64'],
  takes: (point) => (point?.dims.length ?? 0) <= 3,
  rowOf: (of) => ({
    columns: of.columns?.join(', ') ?? '',
    k: String(of.k ?? ''),
    vectors: [...(of.vectors ?? [])],
    normalize: of.normalize ?? true,
  }),
  entryOf: ({ kind, columns, k, vectors, normalize }) =>
    isEmpty(columns)
      ? { kind, vectors: [...vectors], normalize: normalize ? undefined : false, k: wholeOf(k) }
      : { kind, columns: columnsOf(columns), k: wholeOf(k) },
  problemOf: ({ columns, k, vectors }) => {
    if (!isEmpty(k) && !isWhole(k)) return ['k', 'a whole number from 1 to 100'];
    if (isEmpty(columns)) {
      return vectors.length > 0
        ? undefined
        : ['columns', 'columns from 0 such as 3, 17, or vectors'];
    }
    const numbers = columnsOf(columns);
    return numbers === undefined || numbers.length > kMaxColumns
      ? ['columns', `1 to ${kMaxColumns} columns from 0, such as 3, 17`]
      : undefined;
  },
  nameOf: ({ k }) => `top_tokens ${orElse(k, '20')}`,
  summaryOf: (row) => [unitsOf(row)],
  fit: (row, run) => {
    if (isEmpty(row.columns) && row.vectors.length === 0) {
      row.vectors = [...(run?.vectors ?? [])];
      if (row.vectors.length === 0) row.columns = '0';
    }
  },
  members: [['units', (row) => (row.kind === 'top_tokens' ? unitsOf(row) : '')]],
  texts: { o: 'k', c: 'columns' },
  marksOf: ({ columns, vectors, normalize }) =>
    isEmpty(columns) ? [...vectors.map((vector) => `v${vector}`), ...(normalize ? [] : ['u'])] : [],
  unused: ({ columns }) => (isEmpty(columns) ? {} : { vectors: [], normalize: true }),
  fields: { later: chunk(() => import('./unit_fields.svelte')) },
};

function unitsOf({ columns, vectors }: PlanRow): string {
  return isEmpty(columns) ? vectors.join(', ') : `columns ${columns}`;
}

function presetsOf(run: PresetRun): readonly Preset[] {
  const neurons = pointsNamed(run, ['MLPActivation']).map(({ name: point, features }) => ({
    point,
    rows: 0,
    compressor: { kind: 'top_tokens', columns: [0, 1, 2, 3].filter((each) => each < features) },
  }));
  const vectors = run.vectors.slice(0, kMaxColumns);
  const directions = vectors.length === 0 ? [] : pointsNamed(run, ['HiddenStates']);
  return [
    {
      name: 'Top activating tokens',
      text: "The tokens with the largest numbers of the first four neurons of each layer, and of the run's directions",
      entries: [
        ...neurons,
        ...directions.map(({ name: point }) => ({
          ...{ point, rows: 0, compressor: { kind: 'top_tokens', vectors } },
        })),
      ],
    },
  ];
}

/** The compressor `top_tokens` in the form of the plan, and its preset. */
export const kPlan: PlanFeature = { compressors: { top_tokens: kTopTokens }, presetsOf };
