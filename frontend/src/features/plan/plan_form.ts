import { parseLayers } from '../../protocol/layers';
import type { CompressorFacts, PlanEntry, PointFacts } from '../../protocol/messages';
import { planCompressor } from '../../core/registry/plan';
import {
  type FormError,
  isEmpty,
  isWhole,
  type PlanRow,
  type Problem,
} from '../../core/registry/plan_feature';
import { isTokens } from './plan_row';

export type PlanResult =
  | { readonly ok: true; readonly plan: { readonly entries: readonly PlanEntry[] } }
  | ({ readonly ok: false } & FormError);

/** Turns the form into a plan, or names the member that the trainer could not read. */
export function planOf(rows: readonly PlanRow[], points: readonly PointFacts[]): PlanResult {
  const entries: PlanEntry[] = [];
  for (const [index, row] of rows.entries()) {
    const tokens = isTokens(points.find((point) => point.name === row.point));
    const problem = problemOf(row, tokens);
    if (problem !== undefined) {
      const [field, message] = problem;
      return { ok: false, row: index, field, message };
    }
    entries.push(entryOf(row, tokens));
  }
  return { ok: true, plan: { entries } };
}

export type Place = Pick<FormError, 'row' | 'field'>;

/** The entry and member that an error's `where` names: "plan.entries[2].compressor.tiles". */
export function placeOf(where: string | null | undefined): Place | null {
  const match = /entries\[(\d+)\](?:\.([\w.]+))?/.exec(where ?? '');
  if (match === null) return null;
  const members = (match[2] ?? '').split('.').filter((name) => name !== '');
  const field = members[0] === 'compressor' ? (members[1] ?? 'compressor') : (members[0] ?? '');
  return { row: Number(match[1]), field };
}

function problemOf(row: PlanRow, tokens: boolean): Problem | undefined {
  if (!isWhole(row.every)) return ['every', 'a whole number from 1'];
  if (!isEmpty(row.layers) && parseLayers(row.layers) === undefined && !tokens) {
    return ['layers', 'a list of ranges such as 1-4,8'];
  }
  if (row.prompts === '' && !row.train && !row.evaluation) {
    return ['phases', 'choose train, eval or both'];
  }
  if (!isEmpty(row.microBatches) && parseLayers(row.microBatches, 0) === undefined) {
    return ['micro_batches', 'a list of ranges from 0 on such as 0-3'];
  }
  if (!isEmpty(row.rows) && !/^\s*\d{1,7}\s*$/.test(row.rows) && windowOf(row.rows) === undefined) {
    return [
      'rows',
      'the number of rows (0: all), or first:end, counted from 0, where end is excluded',
    ];
  }
  if (!isEmpty(row.tokens) && windowOf(row.tokens) === undefined) {
    return ['tokens', 'first:end, counted from 0, where end is excluded, such as 0:64'];
  }
  return planCompressor(row.kind)?.problemOf?.(row);
}

/** The entry without members that have their default value. */
function entryOf(row: PlanRow, tokens: boolean): PlanEntry {
  const rows = isEmpty(row.rows) || row.rows.trim() === '1' ? undefined : row.rows;
  const window = windowOf(row.tokens);
  const integers = tokens && row.dtype === 'i32';
  const entry: PlanEntry = {
    point: row.point,
    enabled: row.enabled ? undefined : false,
    direction: row.direction === 'gradient' ? 'gradient' : undefined,
    layers: isEmpty(row.layers) ? undefined : row.layers.replace(/\s/g, ''),
    every: Number(row.every),
    ...(row.prompts === '' ? passOf(row) : promptsOf(row)),
    rows: rows === undefined ? undefined : (windowOf(rows) ?? Number(rows)),
    tokens: window,
    compressor: defined(compressorOf(row)),
    dtype: integers ? undefined : row.dtype,
  };
  return defined(entry);
}

function compressorOf(row: PlanRow): CompressorFacts {
  const shown = planCompressor(row.kind)?.entryOf(row) ?? { kind: row.kind };
  return row.more?.kind === row.kind ? { ...row.more, ...shown } : shown;
}

function promptsOf(row: PlanRow): Pick<PlanEntry, 'prompts' | 'responses' | 'mean_over'> {
  return {
    prompts: row.prompts,
    responses: row.responses ? true : undefined,
    mean_over: row.meanOver === '' ? undefined : row.meanOver,
  };
}

function passOf(row: PlanRow): Pick<PlanEntry, 'phases' | 'eval_forwards' | 'micro_batches'> {
  const phases = [row.train ? 'train' : '', row.evaluation ? 'eval' : ''].filter(
    (phase): phase is 'train' | 'eval' => phase !== '',
  );
  const batches = row.microBatches.replace(/\s/g, '');
  return {
    phases: phases.join() === 'train' ? undefined : phases,
    eval_forwards: row.evaluation && row.allEvaluation ? 'all' : undefined,
    micro_batches: batches === '' || batches === '0' ? undefined : batches,
  };
}

/** The object without undefined members: a message cannot contain them either. */
function defined<T extends object>(of: T): T {
  return Object.fromEntries(Object.entries(of).filter(([, value]) => value !== undefined)) as T;
}

function windowOf(text: string): readonly [number, number] | undefined {
  const match = /^\s*(\d{1,7})\s*:\s*(\d{1,7})\s*$/.exec(text);
  if (match === null || Number(match[1]) >= Number(match[2])) return undefined;
  return [Number(match[1]), Number(match[2])];
}
