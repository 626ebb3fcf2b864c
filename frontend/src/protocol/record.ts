export const kPhases = ['train', 'eval'] as const;
export type Phase = (typeof kPhases)[number];

export const kInputTokensFlag = 8;

/** The header of one record; docs/protocol.md defines each field. */
export interface RecordHeader {
  readonly run: string;
  readonly sequence: number;
  readonly step: number;
  readonly plan: number;
  readonly entry: number;
  readonly microBatch: number;
  readonly promptSet: number;
  readonly firstRow: number;
  readonly point: number;
  readonly layer: number;
  readonly tensorRank: number;
  readonly pipelineRank: number;
  readonly dataRank: number;
  readonly phase: number;
  readonly direction: number;
  readonly dtype: number;
  readonly compressor: number;
  readonly shape: readonly number[];
  readonly features: number;
  /** Nanoseconds since 1970, rounded to the precision of a double. */
  readonly time: number;
}

export interface TensorRecord {
  readonly header: RecordHeader;
  /**
   * In the dtype of the wire. Its offset in the buffer is a multiple of 8 bytes, and the buffer holds
   * no other large data.
   */
  readonly payload: Uint8Array<ArrayBuffer>;
}

interface DtypeInfo {
  readonly name: string;
  readonly bytes: number;
}

const kDtypes: ReadonlyMap<number, DtypeInfo> = new Map([
  [1, { name: 'f64', bytes: 8 }],
  [2, { name: 'f32', bytes: 4 }],
  [3, { name: 'f16', bytes: 2 }],
  [4, { name: 'bf16', bytes: 2 }],
  [5, { name: 'i32', bytes: 4 }],
  [6, { name: 'i64', bytes: 8 }],
  [7, { name: 'u8', bytes: 1 }],
]);

export const kF64 = 1;
export const kU8 = 7;
/** Bytes for the offset and the scale of one line of a u8 payload; they come before all codes. */
export const kU8LineBytes = 8;

export function elementsOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** The number of lines of an array along its last dim: 1 without dims, 0 if the array is empty. */
export function linesOf(shape: readonly number[]): number {
  const elements = elementsOf(shape);
  return elements === 0 ? 0 : elements / (shape.at(-1) ?? 1);
}

/** The dtype's name, or "dtype 9" for one that this version does not know. */
export function dtypeName(dtype: number): string {
  return kDtypes.get(dtype)?.name ?? `dtype ${dtype}`;
}

/** The bytes of one number, or undefined for a dtype that this version does not know. */
export function dtypeBytes(dtype: number): number | undefined {
  return kDtypes.get(dtype)?.bytes;
}
