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
import { activePrompts, type CompressorFacts, type PlanEntry } from '../../protocol/messages';
import { kExpression, kMethods } from './methods';

declare module '../../core/registry/plan_feature' {
  interface PlanRow {
    tiles: string;
    /** One of kMethods, or `kExpression`. */
    method: string;
    expression: string;
    /** Members of `tile` that the form does not show. They stay unchanged. */
    rest: Pick<CompressorFacts, 'tiles_one_rank' | 'method_one_rank' | 'data_dims'>;
  }
}

const kDtypes = ['f32', 'f64', 'bf16', 'f16', 'u8'];

const kNone: PlanCompressor = {
  text: 'Every column, without reduction',
  dtypes: kDtypes,
  rowOf: () => ({}),
  entryOf: ({ kind }) => ({ kind }),
};

const kTile: PlanCompressor = {
  text: 'Neighbouring columns reduced to one number',
  dtypes: kDtypes,
  rowOf: tileRow,
  entryOf: ({ kind, tiles, method: chosen, expression, rest }) => {
    const named = chosen === 'mean' ? undefined : chosen;
    const method = chosen === kExpression ? expression.trim() : named;
    return { kind, tiles: wholeOf(tiles), method, ...rest };
  },
  problemOf: ({ tiles, method, expression }) => {
    if (!isEmpty(tiles) && !isWhole(tiles)) return ['tiles', 'a whole number from 1'];
    return method === kExpression && isEmpty(expression)
      ? ['method', 'write an expression of data, such as data.abs().amax(dim=-1)']
      : undefined;
  },
  newRowOf: ({ features }) => ({ tiles: String(Math.min(64, features)) }),
  nameOf: ({ tiles }) => `tile ${orElse(tiles, '64')}`,
  summaryOf: (row) => (row.method === 'mean' ? [] : [reducedBy(row)]),
  members: [
    ['tiles', (row) => (row.kind === 'tile' ? orElse(row.tiles, 'default') : '')],
    ['method', (row) => (row.kind === 'tile' ? reducedBy(row).trim() : '')],
  ],
  texts: { t: 'tiles' },
  marksOf: ({ method: chosen, expression, rest }) => {
    const method = chosen === kExpression ? `=${expression.trim()}` : chosen;
    const { tiles_one_rank: tiles, method_one_rank: reduction, data_dims: dims } = rest;
    return [
      ...(method === 'mean' ? [] : [`m${method}`]),
      ...(tiles === undefined ? [] : [`T${tiles}`]),
      ...(reduction === undefined ? [] : [`M${reduction}`]),
      ...(dims === undefined ? [] : [`D${dims}`]),
    ];
  },
  readMark,
  fields: { later: chunk(() => import('./tile_fields.svelte')) },
};

function tileRow(of: CompressorFacts): Partial<PlanRow> {
  const { tiles_one_rank, method_one_rank, data_dims } = of;
  const method = of.method ?? 'mean';
  const builtIn = (kMethods as readonly string[]).includes(method);
  return {
    tiles: String(of.tiles ?? ''),
    method: builtIn ? method : kExpression,
    expression: builtIn ? '' : method,
    rest: { tiles_one_rank, method_one_rank, data_dims },
  };
}

function reducedBy({ method, expression }: PlanRow): string {
  return method === kExpression ? expression : method;
}

function readMark(row: PlanRow, letter: string, value: string): boolean {
  if (letter === 'M') row.rest = { ...row.rest, method_one_rank: value };
  else if (letter === 'T' && /^\d{1,9}$/.test(value)) {
    row.rest = { ...row.rest, tiles_one_rank: Number(value) };
  } else if (letter === 'D' && /^\d$/.test(value)) {
    row.rest = { ...row.rest, data_dims: Number(value) };
  } else if (letter === 'm' && value.startsWith('=')) {
    row.method = kExpression;
    row.expression = value.slice(1);
  } else if (letter === 'm' && (kMethods as readonly string[]).includes(value)) {
    row.method = value;
  } else return false;
  return true;
}

function tilesOf(
  run: PresetRun,
  names: readonly string[],
  tiles: number,
  dtype: string,
): readonly PlanEntry[] {
  return pointsNamed(run, names).map((point) => ({
    point: point.name,
    compressor: { kind: 'tile', tiles: Math.min(tiles, point.features) },
    dtype,
  }));
}

function presetsOf(run: PresetRun): readonly Preset[] {
  const blocks = tilesOf(run, ['QKV', 'MLP1', 'MLP2'], 96, 'bf16');
  return [
    {
      name: 'Overview',
      text: 'Hidden states of all layers, 64 tiles',
      entries: tilesOf(run, ['HiddenStates'], 64, 'f32'),
    },
    {
      name: 'QKV and MLP',
      text: `${blocks.map(({ point }) => point).join(', ')}: 96 tiles, bf16`,
      entries: blocks,
    },
    {
      name: 'Prompts',
      text: 'Hidden states of every prompt set, all prompts',
      entries: activePrompts(run).flatMap(({ name: prompts }) =>
        tilesOf(run, ['HiddenStates'], 64, 'f32').map((entry) => ({ ...entry, prompts, rows: 0 })),
      ),
    },
  ];
}

/** The compressors `none` and `tile` in the form of the plan, and their presets. */
export const kPlan: PlanFeature = { compressors: { none: kNone, tile: kTile }, presetsOf };
