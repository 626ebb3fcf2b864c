import type { MapPair } from '../store/frame_pair';
import type { FrameBase, History } from '../store/frames';
import type { MapData } from '../store/map_data';
import type { ExportArray, ExportAxis } from './files';

// Functions with which the features make their exported arrays.

/** An axis that most frames have. */
export function positionAxis({ positions }: Pick<FrameBase, 'positions'>): ExportAxis {
  return { name: 'position', labels: [...positions] };
}

export function layerAxis({ layers }: Pick<FrameBase, 'layers'>): ExportAxis {
  return { name: 'layer', labels: layers };
}

export function threeMaps(
  name: string,
  { a, b, difference }: MapPair,
  rows: ExportAxis,
  cols: ExportAxis,
): readonly ExportArray[] {
  return [
    ...mapArrays(`${name}_a`, 'A', a, rows, cols),
    ...mapArrays(`${name}_b`, 'B', b, rows, cols),
    ...mapArrays(`${name}_difference`, 'A − B, in float64', difference, rows, cols),
  ];
}

/**
 * The array of a map. Values that were not captured are NaN. If rows were not captured, a second
 * array marks the captured rows.
 */
export function mapArrays(
  name: string,
  text: string,
  map: MapData,
  rows: ExportAxis,
  cols: ExportAxis,
): readonly ExportArray[] {
  const data = map.values.slice();
  const whole = map.present.every((here) => here === 1);
  map.present.forEach((here, row) => {
    if (here === 0) data.fill(Number.NaN, row * map.cols, (row + 1) * map.cols);
  });
  map.absent?.forEach((missing, at) => {
    if (missing === 1) data[at] = Number.NaN;
  });
  const array = { name, text, axes: [rows, cols], shape: [map.rows, map.cols], data };
  if (whole) return [array];
  const mask = Uint8Array.from(map.present);
  return [
    array,
    {
      name: `${name}_captured`,
      text: '1 where a row was captured',
      axes: [rows],
      shape: [map.rows],
      data: mask,
    },
  ];
}

export function idsOf({ tokens }: FrameBase, positions: ExportAxis): readonly ExportArray[] {
  if (tokens === null) return [];
  const data = tokens.slice();
  return [{ name: 'tokens', text: 'token ids', axes: [positions], shape: [data.length], data }];
}

export function vector(name: string, text: string, data: Float64Array, axis: string): ExportArray {
  const axes = [{ name: axis, labels: counted(data.length) }];
  return { name, text, axes, shape: [data.length], data: data.slice() };
}

export function historyArrays(history: History, layers: ExportAxis): readonly ExportArray[] {
  const steps: ExportAxis = { name: 'step', labels: history.steps };
  return Object.entries(history.lines).map(([name, lines]) => ({
    name: `${name}_by_step`,
    text: `${name} over the kept steps`,
    axes: [layers, steps],
    shape: [lines.length, history.steps.length],
    data: Float64Array.from(lines.flat(), (value) => value ?? Number.NaN),
  }));
}

export function counted(count: number, first = 0): readonly number[] {
  return Array.from({ length: count }, (_, i) => first + i);
}
