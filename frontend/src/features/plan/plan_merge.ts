import { parseLayers } from '../../protocol/layers';
import type { PointFacts } from '../../protocol/messages';
import type { PlanRow } from '../../core/registry/plan_feature';
import { formatDraft } from './plan_text';

/** The rows of `added` whose records no row of `rows` captures yet. */
export function missingRows(
  rows: readonly PlanRow[],
  added: readonly PlanRow[],
  points: readonly PointFacts[],
): readonly PlanRow[] {
  return added.filter((row) => {
    const point = points.find(({ name }) => name === row.point);
    return !rows.some((each) => takes(each, row, point));
  });
}

/** Whether `each` captures all records of `row`: the same numbers, at all its steps and in all its layers. */
function takes(each: PlanRow, row: PlanRow, point: PointFacts | undefined): boolean {
  return (
    each.enabled &&
    contentsOf(each) === contentsOf(row) &&
    Number(row.every) % Number(each.every) === 0 &&
    hasLayersOf(each, row, point) &&
    (row.prompts !== '' || ((each.train || !row.train) && (each.evaluation || !row.evaluation))) &&
    (each.dtype === row.dtype || each.dtype === 'f32')
  );
}

/** The kind of numbers in the records, as one text. */
function contentsOf(row: PlanRow): string {
  const plain = { every: '1', layers: '', dtype: 'f32', train: true, evaluation: false };
  return formatDraft([{ ...row, ...plain, allEvaluation: false, enabled: true }]);
}

function hasLayersOf(each: PlanRow, row: PlanRow, point: PointFacts | undefined): boolean {
  if (each.layers.trim() === '') return true;
  const here = parseLayers(each.layers) ?? [];
  const all = point === undefined ? '' : `${point.first_layer}-${point.last_layer}`;
  const wanted = parseLayers(row.layers.trim() === '' ? all : row.layers);
  return wanted?.every((layer) => here.includes(layer)) ?? false;
}
