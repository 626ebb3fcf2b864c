import { linesToFloats } from '../../protocol/numbers';
import type { TensorRecord } from '../../protocol/record';
import type { ViewQuery } from '../../core/store/frames';
import { historyOf, type Scene, tokenBaseOf, tokensOfRow } from '../../core/store/scene';
import { thinned } from '../../core/store/thinning';
import { layersByTokens } from '../../core/store/token_maps';
import { tokenSumsOf } from '../../core/store/token_sums';
import type { TraitSeries, TraitsFrame } from './frame';

// A screen has too few pixels for more columns.
const kMaxSteps = 1000;

/** The projections on all vectors over the steps, from records of [rows, sequence, vectors]. */
export function traitsView(scene: Scene): TraitsFrame | undefined {
  const { shape } = scene.parts[0].header;
  const [, sequence, vectors] = shape;
  const found = tokenBaseOf(scene, 0, sequence);
  if (shape.length !== 3 || found === undefined || vectors === 0) return undefined;
  if (summaryOf(scene.query, found.row.record) === undefined) return undefined;
  const { base, row, cols } = found;
  const vector = Math.min(scene.query.vector, vectors - 1);
  return {
    ...base,
    kind: 'traits',
    vectors,
    vector,
    layerMap: layersByTokens(
      scene,
      base.layers,
      row.name,
      cols,
      (values, at) => values[at + vector],
    ),
    overSteps: seriesOf(scene, base.layers, vectors),
  };
}

function seriesOf(scene: Scene, layers: readonly number[], vectors: number): TraitSeries {
  const most = scene.detail === 'whole' ? Infinity : kMaxSteps;
  const groups = thinned(historyOf(scene), scene.query.every, most).items;
  const cells = layers.length * groups.length;
  const absent = new Uint8Array(cells).fill(1);
  const mean = new Float32Array(vectors * cells);
  const last = new Float32Array(vectors * cells);
  layers.forEach((layer, row) => {
    groups.forEach((group, col) => {
      const at = row * groups.length + col;
      const sum = sumOf(scene.query, group.layers.get(layer) ?? [], vectors);
      if (sum.rows.every((rows) => rows === 0)) return;
      absent[at] = 0;
      for (let vector = 0; vector < vectors; vector++) {
        mean[vector * cells + at] = sum.all[vector] / sum.tokens[vector];
        last[vector * cells + at] = sum.lasts[vector] / sum.rows[vector];
      }
    });
  });
  return { steps: groups.map(({ step }) => step), absent, mean, last };
}

/** The sums over the rows of a record, for each vector. */
interface Sum {
  /** The numbers of rows and of tokens that count. */
  readonly rows: Float64Array;
  readonly tokens: Float64Array;
  /** Over all tokens, and over the last token of each row. */
  readonly all: Float64Array;
  readonly lasts: Float64Array;
}

function emptySum(vectors: number): Sum {
  const zeros = (): Float64Array => new Float64Array(vectors);
  return { rows: zeros(), tokens: zeros(), all: zeros(), lasts: zeros() };
}

/** The sums over all micro-batches. */
function sumOf(query: ViewQuery, parts: readonly TensorRecord[], vectors: number): Sum {
  const sums = parts.flatMap((part) => summaryOf(query, part) ?? []);
  if (sums.length === 1) return sums[0];
  const total = emptySum(vectors);
  for (const sum of sums) {
    for (let vector = 0; vector < vectors; vector++) {
      total.rows[vector] += sum.rows[vector];
      total.tokens[vector] += sum.tokens[vector];
      total.all[vector] += sum.all[vector];
      total.lasts[vector] += sum.lasts[vector];
    }
  }
  return total;
}

interface Kept extends Sum {
  readonly of: string;
}

// A record is summed only once, although every later series contains it.
const kKept = new WeakMap<TensorRecord, Kept>();

/** Undefined if the record has another shape, or a dtype that cannot be read. */
function summaryOf(query: ViewQuery, record: TensorRecord): Sum | undefined {
  const { ofResponses = false } = query;
  const of = `${query.firstToken}/${query.lengths?.join() ?? ''}/${String(ofResponses)}`;
  const kept = kKept.get(record);
  if (kept?.of === of) return kept;
  const means = tokenSumsOf(query, record, 'mean');
  if (means === undefined) return undefined;
  const [rows, sequence, vectors] = record.header.shape;
  const sum = emptySum(vectors);
  for (let row = 0; row < rows; row++) {
    const own = tokensOfRow(query, record.header.firstRow + row, query.firstToken, sequence);
    const end = own > 0 ? linesToFloats(record, row * sequence + own - 1, 1) : undefined;
    if (end === undefined) continue;
    for (let vector = 0; vector < vectors; vector++) {
      const mean = means[row * vectors + vector];
      if (ofResponses && Number.isNaN(mean)) continue;
      sum.rows[vector] += 1;
      sum.tokens[vector] += own;
      sum.all[vector] += own * mean;
      sum.lasts[vector] += end[vector];
    }
  }
  const made = { of, ...sum };
  kKept.set(record, made);
  return made;
}
