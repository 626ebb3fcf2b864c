import { chunk } from '../../core/registry/chunks';
import {
  type PlanCompressor,
  type PlanFeature,
  pointsNamed,
  type Preset,
  type PresetRun,
} from '../../core/registry/plan_feature';
import { range } from '../../core/store/scene';
import { formatLayers } from '../../protocol/layers';
import { activePrompts, type PlanEntry, type PointFacts } from '../../protocol/messages';

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
  const data = pointsNamed(run, ['HiddenStates', 'FinalNorm']).map((point) => ({
    ...{ point: point.name, layers: layersOf(run, point) },
    compressor,
  }));
  const sets = activePrompts(run).flatMap(({ name: prompts }) =>
    data.map((entry) => ({ ...entry, prompts, rows: 0 })),
  );
  return [...data, ...sets];
}

/** A vector's last row is that of the final norm's output, not of the last layer's. */
function layersOf(
  run: PresetRun,
  { name, first_layer, last_layer }: PointFacts,
): string | undefined {
  const isLeftOut = name === 'HiddenStates' && pointsNamed(run, ['FinalNorm']).length > 0;
  if (!isLeftOut || last_layer === first_layer) return undefined;
  return formatLayers(range(first_layer, last_layer - 1));
}

/** The compressor `projection` in the form of the plan, and its preset. */
export const kPlan: PlanFeature = { compressors: { projection: kProjection }, presetsOf };
