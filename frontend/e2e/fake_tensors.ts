// Records of the synthetic run, entry by entry of the trace plan.

import {
  attentionAt,
  type FakePoint,
  kHeads,
  kLayers,
  kPoints,
  kPromptSet,
  kSequence,
  kStatsWidth,
  logitAt,
  projectionAt,
  statAt,
  tokenAt,
} from './fake_data.ts';
import type { RecordFields } from './fake_record.ts';

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

/** What an entry sends at a step, layer by layer; nothing where it takes nothing. */
export function recordsOf(entry: Entry, step: number, value: TileValue): FakeRecord[] {
  if (entry.enabled === false || step % (entry.every ?? 1) !== 0) return [];
  const point = kPoints.find(({ name }) => name === entry.point);
  if (point === undefined) throw new Error(entry.point);
  if (entry.prompts !== undefined && step % kPromptSet.interval !== 0) return [];
  if (point.features === 0) return [tokensOf(entry, step)];
  const layers = point.layered ? layersOf(entry.layers) : [0];
  return layers.map((layer) => {
    const numbers = numbersOf(entry, point, layer, step, value);
    const dtype = kDtypes[entry.dtype ?? 'f32'];
    const { shape, compressor, values } = numbers;
    const about = { point: point.flag, layer, features: point.features, dtype, compressor, shape };
    const payload = encodeNumbers(values, dtype);
    return { fields: { ...about, ...passOf(entry), direction: directionOf(entry) }, payload };
  });
}

function numbersOf(
  entry: Entry,
  point: FakePoint,
  layer: number,
  step: number,
  value: TileValue,
): Numbers {
  const kind = entry.compressor?.kind ?? (point.name === 'Logits' ? 'topk' : 'tile');
  const [first, end] = entry.tokens ?? [0, kSequence];
  const tokens = range(first, end);
  if (point.name === 'RawAttentionScore') return attention(layer, step, tokens);
  switch (kind) {
    case 'stats':
      return {
        shape: [2, kStatsWidth],
        compressor: 3,
        values: range(0, 2 * kStatsWidth).map((i) => statAt(layer, step, i)),
      };
    case 'projection':
      return projection(entry, layer, step, tokens);
    case 'topk':
      return topK(step, tokens, entry.compressor?.k ?? 10);
    default: {
      const tiles = kind === 'none' ? point.features : (entry.compressor?.tiles ?? 64);
      const values = tokens.flatMap((token) =>
        range(0, tiles).map((tile) => value(point.flag, layer, step, token, tile, tiles)),
      );
      const compressor = kind === 'none' ? 0 : 1;
      return { shape: [1, tokens.length, tiles], compressor, values };
    }
  }
}

function attention(layer: number, step: number, queries: readonly number[]): Numbers {
  const values = range(0, kHeads).flatMap((head) =>
    queries.flatMap((query) =>
      range(0, kSequence).map((key) => attentionAt(layer, head, query, key, step)),
    ),
  );
  return { shape: [1, kHeads, queries.length, kSequence], compressor: 0, values };
}

function projection(entry: Entry, layer: number, step: number, tokens: readonly number[]): Numbers {
  const vectors = entry.compressor?.vectors?.length ?? 1;
  const prompts = entry.prompts === undefined ? 1 : kPromptSet.prompts.length;
  const length = entry.prompts === undefined ? tokens.length : longestPrompt();
  const values = range(0, prompts).flatMap((row) =>
    range(0, length).flatMap((token) =>
      range(0, vectors).map((vector) => projectionAt(layer, step, row, token, vector)),
    ),
  );
  return { shape: [prompts, length, vectors], compressor: 4, values };
}

function topK(step: number, tokens: readonly number[], k: number): Numbers {
  const ranks = tokens.flatMap((token) => range(0, k).map((rank) => ({ token, rank })));
  const best = ranks.map(({ token, rank }) => logitAt(step, token, rank));
  const values = [...best.map(({ value }) => value), ...best.map(({ id }) => id)];
  return { shape: [2, 1, tokens.length, k], compressor: 5, values };
}

function tokensOf(entry: Entry, step: number): FakeRecord {
  const prompted = entry.prompts !== undefined;
  const length = prompted ? longestPrompt() : kSequence;
  const rows = prompted
    ? kPromptSet.prompts.map((text) => range(0, length).map((i) => text.charCodeAt(i) || 0))
    : [range(0, length).map((i) => tokenAt(step, i))];
  const positions = rows.map(() => range(0, length));
  const payload = Buffer.from(Int32Array.from([...rows.flat(), ...positions.flat()]).buffer);
  const shape = [2, rows.length, length];
  const about = { point: 8, layer: 0, features: 0, dtype: 5, compressor: 0, shape };
  return { fields: { ...about, ...passOf(entry) }, payload };
}

function passOf(entry: Entry): { readonly phase: number; readonly promptSet: number } {
  return entry.prompts === undefined ? { phase: 0, promptSet: 0 } : { phase: 1, promptSet: 1 };
}

function directionOf(entry: Entry): number {
  return entry.direction === 'gradient' ? 1 : 0;
}

const kDtypes: Readonly<Record<string, number>> = { f32: 2, bf16: 4 };

/** f32, and bf16. */
function encodeNumbers(values: readonly number[], dtype: number): Buffer {
  const numbers = Float32Array.from(values);
  if (dtype === 2) return Buffer.from(numbers.buffer);
  const bits = new Uint32Array(numbers.buffer);
  return Buffer.from(Uint16Array.from(bits, (each) => (each + 0x8000) >>> 16).buffer);
}

function longestPrompt(): number {
  return Math.max(...kPromptSet.prompts.map((text) => text.length));
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
