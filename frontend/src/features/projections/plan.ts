import { chunk } from '../../core/registry/chunks';
import {
  type PlanCompressor,
  type PlanFeature,
  pointsNamed,
  type Preset,
  type PresetRun,
} from '../../core/registry/plan_feature';
import { activePrompts, type PlanEntry } from '../../protocol/messages';

declare module '../../core/registry/plan_feature' {
  interface PlanRow {
    vectors: string[];
    normalize: boolean;
    cosine: boolean;
  }
}

const kMaxVectors = 32;

const kProjection: PlanCompressor = {
  text: 'Dot products with direction vectors',
  dtypes: ['f32', 'f64', 'bf16', 'f16', 'u8'],
  takes: (point, run) => (point?.dims.length ?? 0) <= 3 && (run?.vectors.length ?? 0) > 0,
  rowOf: (of) => ({
    vectors: [...(of.vectors ?? [])],
    normalize: of.normalize ?? true,
    cosine: of.cosine ?? false,
  }),
  entryOf: ({ kind, vectors, normalize, cosine }) => ({
    kind,
    vectors: [...vectors],
    normalize: normalize ? undefined : false,
    cosine: cosine ? true : undefined,
  }),
  problemOf: ({ vectors }) =>
    vectors.length === 0 ? ['vectors', 'choose at least one'] : undefined,
  summaryOf: ({ vectors, cosine }) => [vectors.join(', '), cosine ? 'cosine' : ''],
  fit: (row, run) => {
    if (row.vectors.length === 0) row.vectors = [...(run?.vectors ?? [])];
  },
  members: [
    ['vectors', (row) => (row.kind === 'projection' ? row.vectors.join(', ') : '')],
    ['by length', (row) => (row.kind === 'projection' && !row.normalize ? 'no' : 'yes')],
    ['cosine', (row) => (row.kind === 'projection' && row.cosine ? 'yes' : 'no')],
  ],
  marksOf: ({ vectors, normalize, cosine }) => [
    ...vectors.map((vector) => `v${vector}`),
    ...(normalize ? [] : ['u']),
    ...(cosine ? ['C'] : []),
  ],
  readMark: (row, letter, value) => {
    if (letter === 'v') row.vectors.push(value);
    else if (letter === 'u') row.normalize = false;
    else if (letter === 'C') row.cosine = true;
    else return false;
    return true;
  },
  fields: { later: chunk(() => import('./vector_fields.svelte')) },
};

function presetsOf(run: PresetRun): readonly Preset[] {
  return [
    {
      name: 'Persona vectors',
      text: "Hidden states and the final norm's output on every vector: the run's data and its prompts",
      entries: projectionsOf(run),
    },
  ];
}

function projectionsOf(run: PresetRun): readonly PlanEntry[] {
  if (run.vectors.length === 0) return [];
  const compressor = { kind: 'projection', vectors: run.vectors.slice(0, kMaxVectors) };
  // A vector's last row is that of the final norm's output.
  const points = pointsNamed(run, ['HiddenStates', 'FinalNorm']);
  const data = points.map(({ name: point }) => ({ point, compressor }));
  const sets = activePrompts(run).flatMap(({ name: prompts }) =>
    data.map((entry) => ({ ...entry, prompts, rows: 0 })),
  );
  return [...data, ...sets];
}

/** The compressor `projection` in the form of the plan, and its preset. */
export const kPlan: PlanFeature = { compressors: { projection: kProjection }, presetsOf };
