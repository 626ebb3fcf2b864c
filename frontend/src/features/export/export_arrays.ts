import type { PlainArray } from './npy';
import { compressorName } from '../../protocol/record';
import type { StepFacts } from '../../protocol/messages';
import type { FramePair, MapPair } from '../compare/compare';
import {
  type AttentionFrame,
  type History,
  kStatNames,
  type MapsFrame,
  type ViewFrame,
} from '../../core/store/frames';
import type { MapData } from '../../core/store/map_data';
import { standingsOf } from '../text/predictions';

/** An axis of an exported array: what it counts, and what stands at each place. */
export interface ExportAxis {
  readonly name: string;
  readonly labels: readonly (string | number)[];
}

/** Numbers of a view, for files; at most two axes. */
export interface ExportArray extends PlainArray {
  readonly name: string;
  readonly axes: readonly ExportAxis[];
  /** What the numbers are. */
  readonly text: string;
}

/** What a frame shows; every number is in it where the frame was built whole. */
export function arraysOf(frame: ViewFrame): readonly ExportArray[] {
  const positions: ExportAxis = { name: 'position', labels: [...frame.positions] };
  const layers: ExportAxis = { name: 'layer', labels: frame.layers };
  switch (frame.kind) {
    case 'maps':
      return tileArrays(frame, layers, positions);
    case 'layers':
      return [
        ...frame.maps.flatMap((map, at) => layerArrays(frame.layers[at], map, positions)),
        ...idsOf(frame, positions),
      ];
    case 'over': {
      const steps: ExportAxis = { name: 'step', labels: frame.columns };
      const fold = frame.query.aggregate === 'mean' ? 'mean' : 'largest |x|';
      return mapArrays('over', `${fold} over rows, tokens and tiles`, frame.map, layers, steps);
    }
    case 'attention':
      return attentionArrays(frame);
    case 'projection':
      return [
        ...mapArrays('projection', 'as on the wire', frame.layerMap, layers, positions),
        ...idsOf(frame, positions),
        ...historyArrays(frame.history, layers),
      ];
    case 'stats':
      return [
        table('stats', frame.table, layers),
        vector('histogram', 'numbers in each bin', frame.bins, 'bin'),
        ...historyArrays(frame.history, layers),
      ];
    case 'topk':
      return [
        ...bestArrays('', frame.map, frame.ids, positions),
        ...idsOf(frame, positions),
        ...standingArrays(frame, positions),
      ];
    case 'passed':
      return [];
  }
}

function tileArrays(
  frame: MapsFrame,
  layers: ExportAxis,
  positions: ExportAxis,
): readonly ExportArray[] {
  const tiles: ExportAxis = { name: 'tile', labels: counted(frame.tiles) };
  const fold = frame.query.aggregate === 'mean' ? 'mean' : 'largest |x|';
  return [
    ...mapArrays('layers', `${fold} over tiles`, frame.layerMap, layers, positions),
    ...mapArrays('tiles', 'as on the wire', frame.tileMap, tiles, positions),
    ...idsOf(frame, positions),
  ];
}

function attentionArrays(frame: AttentionFrame): readonly ExportArray[] {
  const queries: ExportAxis = { name: 'query', labels: [...frame.queryPositions] };
  const keys = keyAxis(frame);
  const heads = frame.small.length > 0 ? frame.small : [frame.map];
  return [
    ...heads.flatMap((map, head) =>
      mapArrays(`attention_head_${head}`, 'as on the wire', map, queries, keys),
    ),
    ...idsOf(frame, keys),
  ];
}

/** The keys one by one, or tiles of them. */
function keyAxis({ compressor, map, positions }: AttentionFrame): ExportAxis {
  if (compressorName(compressor) === 'tile') return { name: 'tile', labels: counted(map.cols) };
  return { name: 'key', labels: [...positions] };
}

function layerArrays(
  layer: number,
  map: MapData | null,
  positions: ExportAxis,
): readonly ExportArray[] {
  if (map === null) return [];
  const tiles: ExportAxis = { name: 'tile', labels: counted(map.rows) };
  return mapArrays(`layer_${layer}`, 'as on the wire', map, tiles, positions);
}

/** What a comparison shows: A, B and A − B. */
export function pairArrays(pair: FramePair): readonly ExportArray[] {
  const layers: ExportAxis = { name: 'layer', labels: pair.layers };
  const positions: ExportAxis = { name: 'position', labels: [...pair.a.positions] };
  switch (pair.kind) {
    case 'maps': {
      const tiles: ExportAxis = { name: 'tile', labels: counted(pair.a.tiles) };
      return [
        ...threeMaps('layers', pair.layerMaps, layers, positions),
        ...threeMaps('tiles', pair.tileMaps, tiles, positions),
      ];
    }
    case 'attention': {
      const queries: ExportAxis = { name: 'query', labels: [...pair.a.queryPositions] };
      return threeMaps('attention', pair.maps, queries, keyAxis(pair.a));
    }
    case 'projection':
      return threeMaps('projection', pair.layerMaps, layers, positions);
    case 'stats':
      return [
        table('stats_a', pair.tables.a, layers),
        table('stats_b', pair.tables.b, layers),
        table('stats_difference', pair.tables.difference, layers),
        vector('histogram_a', 'numbers in each bin of A', pair.a.bins, 'bin'),
        vector('histogram_b', 'numbers in each bin of B', pair.b.bins, 'bin'),
      ];
    case 'topk':
      return [
        ...bestArrays('_a', pair.a.map, pair.a.ids, positions),
        ...bestArrays('_b', pair.b.map, pair.b.ids, positions),
        ...mapArrays(
          'values_difference',
          'A − B',
          pair.maps.difference,
          { name: 'rank', labels: counted(pair.a.map.rows, 1) },
          positions,
        ),
      ];
  }
}

/** The scalars of a step that files hold. */
const kScalars = ['loss', 'valid_loss', 'grad_norm', 'lr', 'tokens_per_second'] as const;

/** The scalars as they were told; NaN where nothing was. `units`: what they are counted in. */
export function scalarArrays(
  facts: readonly StepFacts[],
  units: Readonly<Record<(typeof kScalars)[number], string>>,
): readonly ExportArray[] {
  if (facts.length === 0) return [];
  const axes = [{ name: 'step', labels: facts.map(({ step }) => step) }];
  return kScalars.map((name) => ({
    name,
    text: `${units[name]}, by step`,
    axes,
    shape: [facts.length],
    data: Float64Array.from(facts, (of) => of[name] ?? Number.NaN),
  }));
}

function threeMaps(
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

/** A map; what was not captured is NaN, and a second array tells which rows were. */
function mapArrays(
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

function bestArrays(
  suffix: string,
  map: MapData,
  ids: Int32Array,
  positions: ExportAxis,
): readonly ExportArray[] {
  const ranks: ExportAxis = { name: 'rank', labels: counted(map.rows, 1) };
  const axes = [ranks, positions];
  const shape = [map.rows, map.cols];
  return [
    ...mapArrays(`values${suffix}`, 'as on the wire', map, ranks, positions),
    {
      name: `ids${suffix}`,
      text: 'columns (of Logits: token ids)',
      axes,
      shape,
      data: ids.slice(),
    },
  ];
}

function standingArrays(
  frame: Extract<ViewFrame, { kind: 'topk' }>,
  positions: ExportAxis,
): readonly ExportArray[] {
  const standings = standingsOf(frame);
  if (standings === null || frame.query.pointName !== 'Logits') return [];
  // The rank from 1 as it is shown; 0 beyond the k, -1 where the next token is not known.
  const data = Int32Array.from(standings, ({ rank }) => (rank === null ? -1 : rank + 1));
  return [
    {
      name: 'next_rank',
      text: 'rank of the true next token; 0: beyond the k, -1: not known',
      axes: [positions],
      shape: [data.length],
      data,
    },
  ];
}

function idsOf({ tokens }: ViewFrame, positions: ExportAxis): readonly ExportArray[] {
  if (tokens === null) return [];
  const data = tokens.slice();
  return [{ name: 'tokens', text: 'token ids', axes: [positions], shape: [data.length], data }];
}

function table(name: string, data: Float64Array, layers: ExportAxis): ExportArray {
  const axes = [layers, { name: 'statistic', labels: kStatNames }];
  const shape = [layers.labels.length, kStatNames.length];
  return { name, text: 'of all numbers of a layer', axes, shape, data: data.slice() };
}

function vector(name: string, text: string, data: Float64Array, axis: string): ExportArray {
  const axes = [{ name: axis, labels: counted(data.length) }];
  return { name, text, axes, shape: [data.length], data: data.slice() };
}

function historyArrays(history: History, layers: ExportAxis): readonly ExportArray[] {
  const steps: ExportAxis = { name: 'step', labels: history.steps };
  return Object.entries(history.lines).map(([name, lines]) => ({
    name: `${name}_by_step`,
    text: `${name} over the kept steps`,
    axes: [layers, steps],
    shape: [lines.length, history.steps.length],
    data: Float64Array.from(lines.flat(), (value) => value ?? Number.NaN),
  }));
}

function counted(count: number, first = 0): readonly number[] {
  return Array.from({ length: count }, (_, i) => first + i);
}
