import { type Floats, toFloats, toIntegers } from '../../protocol/numbers';
import { dtypeName, kInputTokensFlag, type TensorRecord } from '../../protocol/record';
import { pairOf } from '../../core/store/frame_pair';
import { type MapData, statsOf } from '../../core/store/map_data';
import { tileMapOf } from '../../core/store/token_maps';
import { range } from '../../core/store/scene';

/** The numbers without a program and with it, and their difference. */
export interface Sides {
  readonly off: MapData;
  readonly on: MapData;
  readonly difference: MapData;
}

/** One text at one point, in every layer, without and with a program. */
export interface BeforeAfter {
  readonly step: number;
  /** The set of the text, its first prompt; 0: the first row of the evaluation batch. */
  readonly promptSet: number;
  readonly point: number;
  readonly query: { readonly direction: number };
  /** All layers from the first to the last. A layer that one side lacks has no numbers. */
  readonly layers: readonly number[];
  readonly tiles: number;
  /** Rows: layers; columns: tokens. Root mean squares over the tiles; `difference` has those of on − off. */
  readonly reach: Sides;
  /** One for each of `layers`. Rows: tiles; columns: tokens. The difference is on − off. */
  readonly tileMaps: readonly (Sides | null)[];
  /** The token ids; null if they were not captured. */
  readonly tokens: Int32Array | null;
  readonly positions: Int32Array;
  /** Every number is the same with the program. */
  readonly unchanged: boolean;
}

export type BeforeAfterRead =
  { readonly maps: BeforeAfter } | { readonly maps: null; readonly reason: string };

type Records = readonly TensorRecord[];
interface Layer {
  readonly layer: number;
  readonly off: TensorRecord;
  readonly on: TensorRecord;
}

/**
 * The maps of two lists of records, or the reason why they cannot be compared. A run that evaluates
 * no batch has the maps of a prompt.
 */
export function beforeAfterOf(allOff: Records, allOn: Records): BeforeAfterRead {
  const promptSet = Math.min(...allOff.filter(isOfLayers).map(({ header }) => header.promptSet));
  const [off, on] = [allOff, allOn].map((records) =>
    records.filter(({ header }) => header.promptSet === promptSet),
  );
  const layers = layersOfBoth(off, on);
  if (layers.length === 0) return refused('there are no records of a layer on both sides');
  const reason = obstacle(layers);
  if (reason !== undefined) return refused(reason);
  const { header } = layers[0].off;
  const [, cols, tiles] = header.shape;
  const all = numbersOfLayers([...off, ...on]);
  const maps = new Map(layers.map((each) => [each.layer, sidesOf(each, cols, tiles)]));
  const names = range(all[0], all[all.length - 1]);
  const tileMaps = names.map((layer) => maps.get(layer) ?? null);
  return {
    maps: {
      ...{ step: header.step, promptSet, point: header.point },
      query: { direction: header.direction },
      ...{ layers: names, tiles, tileMaps },
      reach: reachOf(tileMaps, cols),
      ...tokensOf(off, cols),
      unchanged: all.length === layers.length && [...maps.values()].every(isUnchanged),
    },
  };
}

function refused(reason: string): BeforeAfterRead {
  return { maps: null, reason };
}

/** Records of tokens and of predictions have no layer. */
function isOfLayers({ header }: TensorRecord): boolean {
  return header.layer > 0;
}

function numbersOfLayers(records: Records): readonly number[] {
  const numbers = records.filter(isOfLayers).map(({ header }) => header.layer);
  return [...new Set(numbers)].sort((a, b) => a - b);
}

function layersOfBoth(off: Records, on: Records): readonly Layer[] {
  const layers: Layer[] = [];
  for (const layer of numbersOfLayers(off)) {
    const record = off.find((each) => isOfLayers(each) && each.header.layer === layer);
    const twin = on.find(
      ({ header }) => header.layer === layer && header.point === record?.header.point,
    );
    if (record !== undefined && twin !== undefined) layers.push({ layer, off: record, on: twin });
  }
  return layers;
}

/** The reason why these layers have no difference; undefined if they have one. */
function obstacle(layers: readonly Layer[]): string | undefined {
  const [first] = layers;
  for (const { layer, off, on } of layers) {
    const { shape, dtype } = off.header;
    const [rows = 0, cols = 0, tiles = 0] = shape;
    const text = shapeText(off);
    if (shape.length !== 3 || rows * cols * tiles === 0)
      return `layer ${layer} has the shape ${text}`;
    if (text !== shapeText(on)) {
      return `layer ${layer} is ${text} without the program, ${shapeText(on)} with it`;
    }
    if (shapeText(first.off) !== text) {
      return `layer ${first.layer} is ${shapeText(first.off)}, layer ${layer} ${text}`;
    }
    if (toFloats(off) === undefined) return `${dtypeName(dtype)} cannot be shown`;
    if (toFloats(on) === undefined) return `${dtypeName(on.header.dtype)} cannot be shown`;
  }
  return undefined;
}

function shapeText({ header }: TensorRecord): string {
  return header.shape.join('×');
}

function sidesOf({ off, on }: Layer, cols: number, tiles: number): Sides {
  const pair = pairOf(tilesOf(on, cols, tiles), tilesOf(off, cols, tiles));
  return { off: pair.b, on: pair.a, difference: pair.difference };
}

function tilesOf(record: TensorRecord, cols: number, tiles: number): MapData {
  return tileMapOf(toFloats(record) ?? new Float32Array(0), 0, cols, tiles);
}

function isUnchanged({ off, on }: Sides): boolean {
  return off.values.every((value, i) => {
    const other = on.values[i];
    return value === other || (Number.isNaN(value) && Number.isNaN(other));
  });
}

function reachOf(tileMaps: BeforeAfter['tileMaps'], cols: number): Sides {
  const present = Uint8Array.from(tileMaps, (sides) => Number(sides !== null));
  const sizesOf = (side: keyof Sides): MapData => {
    const values = new Float64Array(tileMaps.length * cols);
    tileMaps.forEach((sides, row) => {
      if (sides !== null) values.set(rootMeanSquares(sides[side]), row * cols);
    });
    const stats = statsOf(values, present, cols);
    return { rows: tileMaps.length, cols, values, present, stats };
  };
  return { off: sizesOf('off'), on: sizesOf('on'), difference: sizesOf('difference') };
}

/** One root mean square for each column. */
function rootMeanSquares({ values, rows, cols }: MapData): Floats {
  return Float64Array.from({ length: cols }, (_, col) => {
    let sum = 0;
    for (let row = 0; row < rows; row++) sum += values[row * cols + col] ** 2;
    return Math.sqrt(sum / rows);
  });
}

function tokensOf(records: Records, cols: number): Pick<BeforeAfter, 'tokens' | 'positions'> {
  const record = records.find(({ header }) => header.point === kInputTokensFlag);
  const [planes, rows, length] = record?.header.shape ?? [];
  const values = record === undefined ? undefined : toIntegers(record);
  if (values === undefined || planes !== 2 || length < cols) {
    return { tokens: null, positions: Int32Array.from({ length: cols }, (_, col) => col) };
  }
  const start = rows * length;
  return { tokens: values.slice(0, cols), positions: values.slice(start, start + cols) };
}
