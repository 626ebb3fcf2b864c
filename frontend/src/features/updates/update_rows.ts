import type { UpdatesFrame } from './frame';

/** The default column is the ratio of update and weights, which is of most interest. */
export const kRatioColumn = 7;

/** The choice of the parameters' names, instead of a column, to sort the rows. */
export const kByName = -1;

/** The column that the curves show: the sorted column, or the ratio if the rows are sorted by name. */
export function drawnColumn(sorted: number, columns: number): number {
  return Math.min(sorted === kByName ? kRatioColumn : sorted, columns - 1);
}

/** The name and the description of a column. */
export interface ColumnWords {
  readonly name: string;
  readonly text: string;
}

const kWords: Readonly<Record<string, ColumnWords>> = {
  count: { name: 'count', text: 'Number of values in the parameter' },
  weight_norm: { name: 'weight norm', text: 'Euclidean norm of the weights before the update' },
  weight_rms: { name: 'weight RMS', text: 'Root mean square of the weights before the update' },
  gradient_norm: { name: 'gradient norm', text: 'Euclidean norm of the gradient, before clipping' },
  gradient_rms: { name: 'gradient RMS', text: 'Root mean square of the gradient, before clipping' },
  update_norm: {
    name: 'update norm',
    text: 'Euclidean norm of the update (new weights − old weights)',
  },
  update_rms: {
    name: 'update RMS',
    text: 'Root mean square of the update (new weights − old weights)',
  },
  update_ratio: {
    name: 'update / weight',
    text: 'Norm of the update ÷ norm of the weights',
  },
  first_moment_norm: { name: 'Adam m norm', text: "Euclidean norm of Adam's mean of the gradient" },
  first_moment_rms: { name: 'Adam m RMS', text: "Root mean square of Adam's mean of the gradient" },
  second_moment_mean: { name: 'Adam v mean', text: "Mean of Adam's mean of the squared gradient" },
};

/** The words of a column. A column that this version does not know has its name on the wire. */
export function wordsOf(column: string): ColumnWords {
  return kWords[column] ?? { name: column, text: column };
}

type Table = Pick<UpdatesFrame, 'table' | 'parameters' | 'columns'>;

/** The rows of the table, sorted by a column or, with `kByName`, by name. NaN comes last. */
export function sortedRows(
  { table, parameters, columns }: Table,
  names: readonly string[],
  column: number,
  order: 'down' | 'up',
): readonly number[] {
  const rows = Array.from({ length: parameters }, (_, row) => row);
  const sign = order === 'down' ? -1 : 1;
  if (column < 0) {
    const byName = new Intl.Collator('en', { numeric: true });
    return rows.sort((a, b) => -sign * byName.compare(names[a] ?? '', names[b] ?? ''));
  }
  const of = (row: number): number => table[row * columns + column];
  return rows.sort((a, b) => {
    const [x, y] = [of(a), of(b)];
    if (Number.isNaN(x) || Number.isNaN(y))
      return Number(Number.isNaN(x)) - Number(Number.isNaN(y));
    return sign * (x - y) || a - b;
  });
}

/** The layer in a parameter's name; 0 if the parameter belongs to no layer. */
export function layerIn(name: string): number {
  return Number(/\d+/.exec(name)?.[0] ?? 0);
}

/** The parameters with the same name in all layers: "layers.3.mlp.fc1.weight" without the layer. */
export function familyOf(names: readonly string[], row: number): readonly number[] {
  const kind = (name: string): string => name.replace(/\d+/, '#');
  const wanted = kind(names[row] ?? '');
  return names.flatMap((name, each) => (kind(name) === wanted ? [each] : []));
}
