import { parseLayers } from '../protocol/layers';
import type { Plan, PlanEntry, PointFacts } from '../protocol/messages';

/** One row of the trace-configuration form; the fields are what the user typed. */
export interface PlanRow {
  point: string;
  layers: string;
  tiles: string;
  every: string;
  dtype: string;
  /** Members that the form does not show, kept as they are. */
  readonly rest: Pick<PlanEntry, 'phases' | 'rows'>;
}

export const kDtypeChoices = ['f32', 'f64', 'bf16'] as const;

export function rowsOf(plan: Plan): PlanRow[] {
  return plan.entries.map((entry) => ({
    point: entry.point,
    layers: entry.layers ?? '',
    tiles: entry.compressor?.kind === 'none' ? '' : String(entry.compressor?.tiles ?? 64),
    every: String(entry.every ?? 1),
    dtype: entry.dtype ?? 'f32',
    rest: { phases: entry.phases, rows: entry.rows },
  }));
}

export function newRow(point: PointFacts): PlanRow {
  const tiled = point.features > 0;
  return {
    point: point.name,
    layers: '',
    tiles: tiled ? String(Math.min(64, point.features)) : '',
    every: '1',
    dtype: 'f32',
    rest: { phases: undefined, rows: undefined },
  };
}

/** A point without features (token ids) has no layers, tiles or dtype to choose. */
export function isTokens(row: PlanRow, points: readonly PointFacts[]): boolean {
  return points.find((point) => point.name === row.point)?.features === 0;
}

export type PlanResult =
  | { readonly ok: true; readonly plan: { readonly entries: readonly PlanEntry[] } }
  | { readonly ok: false; readonly message: string; readonly row: number };

/** Turns the form into a plan, or says what the hub could not even read. */
export function planOf(rows: readonly PlanRow[], points: readonly PointFacts[]): PlanResult {
  const entries: PlanEntry[] = [];
  for (const [index, row] of rows.entries()) {
    const problem = problemOf(row, points);
    if (problem !== undefined) return { ok: false, message: problem, row: index };
    entries.push(entryOf(row, isTokens(row, points)));
  }
  return { ok: true, plan: { entries } };
}

function problemOf(row: PlanRow, points: readonly PointFacts[]): string | undefined {
  if (!isWhole(row.every)) return 'every: a whole number from 1';
  if (isTokens(row, points)) return undefined;
  if (row.layers.trim() !== '' && parseLayers(row.layers) === undefined) {
    return 'layers: a list of ranges such as 1-4,8';
  }
  if (row.tiles.trim() !== '' && !isWhole(row.tiles)) {
    return 'tiles: a whole number from 1, or empty for every column';
  }
  return undefined;
}

function entryOf(row: PlanRow, tokens: boolean): PlanEntry {
  const every = Number(row.every);
  const common = { point: row.point, every, ...row.rest };
  const kept = Object.fromEntries(
    Object.entries(common).filter(([, value]) => value !== undefined),
  ) as typeof common;
  if (tokens) return { ...kept, compressor: { kind: 'none', tiles: undefined } } as PlanEntry;
  const layers = row.layers.trim() === '' ? {} : { layers: row.layers.replace(/\s/g, '') };
  const compressor =
    row.tiles.trim() === '' ? { kind: 'none' } : { kind: 'tile', tiles: Number(row.tiles) };
  return { ...kept, ...layers, compressor, dtype: row.dtype } as PlanEntry;
}

function isWhole(text: string): boolean {
  return /^\s*[1-9]\d{0,8}\s*$/.test(text);
}
