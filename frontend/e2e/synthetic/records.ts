// Records of the synthetic run, entry by entry of the trace plan. Tiles, tokens and predictions can be looked at;
// of everything else the shape is that of a real run.

import {
  type FakePoint,
  kHeads,
  kLayers,
  kPromptSet,
  kSequence,
  logitAt,
  numberAt,
  pointNamed,
  tokenAt,
} from './data.ts';
import type { RecordFields } from './record.ts';

export interface Entry {
  readonly point: string;
  readonly enabled?: boolean;
  readonly direction?: string;
  readonly layers?: string;
  readonly every?: number;
  readonly compressor?: {
    readonly kind: string;
    readonly tiles?: number;
    readonly method?: string;
    readonly vectors?: readonly string[];
    readonly k?: number;
    readonly columns?: readonly number[];
  };
  readonly dtype?: string;
  readonly phases?: readonly string[];
  readonly prompts?: string;
  readonly tokens?: readonly [number, number];
}

/** A tile of HiddenStates and the like, as the hub of a test wants it. */
export type TileValue = (
  flag: number,
  layer: number,
  step: number,
  token: number,
  tile: number,
  tiles: number,
) => number;

type Fields = Omit<RecordFields, 'run' | 'sequence' | 'plan' | 'step' | 'entry'>;
export interface FakeRecord {
  readonly fields: Fields;
  readonly payload: Buffer;
}

interface Numbers {
  readonly shape: readonly number[];
  readonly compressor: number;
  readonly values: readonly number[];
}

/** What an entry sends at a step, layer by layer; nothing where it takes nothing. All numbers are f32. */
export function recordsOf(entry: Entry, step: number, value: TileValue): FakeRecord[] {
  if (entry.enabled === false || step % (entry.every ?? 1) !== 0) return [];
  const point = pointNamed(entry.point);
  if (point === undefined) throw new Error(entry.point);
  if (entry.prompts !== undefined && step % kPromptSet.interval !== 0) return [];
  if (point.features === 0) return [tokensOf(step)];
  const direction = entry.direction === 'gradient' ? 1 : 0;
  const pass = entry.prompts === undefined ? { phase: 0 } : { phase: 1, promptSet: 1 };
  const about = { point: point.flag, features: point.features, dtype: 2, direction, ...pass };
  return (point.layered ? layersOf(entry.layers) : [0]).map((layer) => {
    const { values, ...form } = numbersOf(entry, point, layer, step, value);
    const payload = Buffer.from(Float32Array.from(values).buffer);
    return { fields: { ...about, layer, ...form }, payload };
  });
}

/** The width of a row of `stats`: ten numbers and 48 bins. */
const kStatsWidth = 58;

function numbersOf(
  entry: Entry,
  point: FakePoint,
  layer: number,
  step: number,
  value: TileValue,
): Numbers {
  const kind = entry.compressor?.kind ?? (point.name === 'Logits' ? 'topk' : 'tile');
  const tokens = range(...(entry.tokens ?? [0, kSequence]));
  const filled = (compressor: number, ...shape: number[]): Numbers => {
    const length = shape.reduce((product, each) => product * each, 1);
    return { shape, compressor, values: range(0, length).map((i) => numberAt(layer, step, i)) };
  };
  if (point.name === 'RawAttentionScore') return filled(0, 1, kHeads, tokens.length, kSequence);
  switch (kind) {
    case 'stats':
      return filled(3, 2, kStatsWidth);
    case 'projection':
      return filled(4, 1, tokens.length, entry.compressor?.vectors?.length ?? 1);
    case 'topk':
      return topK(step, tokens, entry.compressor?.k ?? 10);
    default: {
      const tiles = kind === 'none' ? point.features : (entry.compressor?.tiles ?? 64);
      const values = tokens.flatMap((token) =>
        range(0, tiles).map((tile) => value(point.flag, layer, step, token, tile, tiles)),
      );
      return { shape: [1, tokens.length, tiles], compressor: kind === 'none' ? 0 : 1, values };
    }
  }
}

function topK(step: number, tokens: readonly number[], k: number): Numbers {
  const best = tokens.flatMap((token) => range(0, k).map((rank) => logitAt(step, token, rank)));
  const values = [...best.map(({ value }) => value), ...best.map(({ id }) => id)];
  return { shape: [2, 1, tokens.length, k], compressor: 5, values };
}

function tokensOf(step: number): FakeRecord {
  const places = range(0, kSequence);
  const ids = places.map((place) => tokenAt(step, place));
  const about = { point: 8, layer: 0, features: 0, dtype: 5, compressor: 0, phase: 0 };
  const payload = Buffer.from(Int32Array.from([...ids, ...places]).buffer);
  return { fields: { ...about, shape: [2, 1, kSequence] }, payload };
}

function layersOf(text: string | undefined): number[] {
  const all = range(1, kLayers + 1);
  if (text === undefined) return all;
  return text.split(',').flatMap((part) => {
    const [first, last = first] = part.split('-').map(Number);
    return all.filter((layer) => layer >= first && layer <= last);
  });
}

function range(first: number, end: number): number[] {
  return Array.from({ length: end - first }, (_, i) => first + i);
}
