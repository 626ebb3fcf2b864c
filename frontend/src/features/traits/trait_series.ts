import type { ViewState } from '../../core/session/url_state';
import { lossesAt } from '../../core/store/losses';
import { type MapData, statsOf } from '../../core/store/map_data';
import { finite } from '../../core/store/series_store';
import type { TraitsFrame } from './frame';

export type Over = ViewState['over'];
export type TraitsOverSteps = Pick<TraitsFrame, 'overSteps'>;
export type TraitRows = Pick<TraitsFrame, 'vectors' | 'overSteps'>;
type Line = readonly (number | null)[];

/** A vector of an entry. */
export interface Trait {
  readonly name: string;
  /** In the entry's list of vectors. */
  readonly index: number;
  /** The name of a custom property. */
  readonly color: string;
}

const kColors = ['--train', '--valid', '--grad', '--rate', '--speed', '--other-4', '--other-5'];

/** The traits of an entry; `names` is undefined if its plan is not known. */
export function traitsOf(vectors: number, names: readonly string[] | undefined): readonly Trait[] {
  return Array.from({ length: vectors }, (_, index) => ({
    name: names?.[index] ?? `vector ${index}`,
    index,
    color: kColors[index % kColors.length],
  }));
}

function cellsOf({ overSteps }: TraitsOverSteps, vector: number, over: Over): Float32Array {
  const cells = overSteps.absent.length;
  return overSteps[over].subarray(vector * cells, (vector + 1) * cells);
}

/** The number of a layer at its first step; null if the layer has no record. */
export function firstOf(
  frame: TraitsOverSteps,
  vector: number,
  row: number,
  over: Over,
): number | null {
  const { steps, absent } = frame.overSteps;
  const first = absent.subarray(row * steps.length, (row + 1) * steps.length).indexOf(0);
  return first < 0 ? null : cellsOf(frame, vector, over)[row * steps.length + first];
}

/** The rows by the steps; with `isDifference`, each layer minus its number at its first step. */
export function traitMap(
  frame: TraitsOverSteps,
  vector: number,
  over: Over,
  isDifference: boolean,
): MapData {
  const { steps, absent } = frame.overSteps;
  const cols = steps.length;
  const rows = cols === 0 ? 0 : absent.length / cols;
  const values = Float32Array.from(cellsOf(frame, vector, over));
  for (let row = 0; row < rows && isDifference; row++) {
    const base = firstOf(frame, vector, row, over) ?? 0;
    for (let at = row * cols; at < (row + 1) * cols; at++) values[at] -= base;
  }
  const present = new Uint8Array(rows).fill(1);
  const held = values.filter((_, at) => absent[at] === 0);
  const stats = statsOf(held, Uint8Array.of(1), held.length);
  return { rows, cols, values, present, absent, stats };
}

/** The map's frame with one more row: the traits at the final norm, at the steps of the frame. */
export function withNorm(frame: TraitRows, norm: TraitRows | null): TraitRows {
  if (norm?.vectors !== frame.vectors) return frame;
  const { steps } = frame.overSteps;
  const columns = steps.map((step) => norm.overSteps.steps.indexOf(step));
  const absent = Uint8Array.from([
    ...frame.overSteps.absent,
    ...columns.map((column) => norm.overSteps.absent[column] ?? 1),
  ]);
  const joined = (over: Over): Float32Array<ArrayBuffer> => {
    const cells = new Float32Array(frame.vectors * absent.length);
    for (let vector = 0; vector < frame.vectors; vector++) {
      const [rows, row] = [cellsOf(frame, vector, over), cellsOf(norm, vector, over)];
      const begin = vector * absent.length;
      cells.set(rows, begin);
      cells.set(
        columns.map((column) => row[column] ?? 0),
        begin + rows.length,
      );
    }
    return cells;
  };
  return { ...frame, overSteps: { steps, absent, mean: joined('mean'), last: joined('last') } };
}

/** The numbers of a row of such a map; null: no record, or not finite. */
export function lineOf({ cols, values, absent }: MapData, row: number): Line {
  return Array.from({ length: cols }, (_, col) => {
    const at = row * cols + col;
    return absent?.[at] === 1 ? null : finite(values[at]);
  });
}

/** The steps of a run, and those of a second run before its first and after its last step. */
export function axisOf(steps: readonly number[], others: readonly number[]): readonly number[] {
  const [first, last] = [steps[0] ?? Infinity, steps.at(-1) ?? Infinity];
  return [
    ...others.filter((step) => step < first),
    ...steps,
    ...others.filter((step) => step > last),
  ];
}

/** The values at the steps of an axis, interpolated; null before the first and after the last one. */
export function valuesAt(axis: readonly number[], steps: readonly number[], line: Line): Line {
  const known = line.flatMap((value, at) => (value === null ? [] : [[steps[at], value] as const]));
  return lossesAt(axis, known);
}
