import { crc32c } from './crc32c';

const kMagic = 0x31465454;
const kVersion = 1;
const kHeaderBytes = 128;

export const kPhases = ['train', 'eval'] as const;
export type Phase = (typeof kPhases)[number];

export const kAttentionFlag = 2;
export const kInputTokensFlag = 8;
export const kLogitsFlag = 23;

/** The header of one record; docs/protocol.md says what each field means. */
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
  /** Nanoseconds since 1970, rounded to what a double can hold. */
  readonly time: number;
}

export interface TensorRecord {
  readonly header: RecordHeader;
  /** A copy of the payload of its own, in the dtype of the wire. */
  readonly payload: ArrayBuffer;
}

export class RecordError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'RecordError';
  }
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
/** Offset and scale that stand before the codes for every line of a u8 payload. */
export const kU8LineBytes = 8;

export function elementsOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Lines along the last dim; a number without dims is one line, and lines of nothing are none. */
export function linesOf(shape: readonly number[]): number {
  const elements = elementsOf(shape);
  return elements === 0 ? 0 : elements / (shape.at(-1) ?? 1);
}

/** The dtype's name, or "dtype 9" for one that this version does not know. */
export function dtypeName(dtype: number): string {
  return kDtypes.get(dtype)?.name ?? `dtype ${dtype}`;
}

/** Bytes of one number, or undefined for a dtype that this version does not know. */
export function dtypeBytes(dtype: number): number | undefined {
  return kDtypes.get(dtype)?.bytes;
}

export const kCompressors = ['none', 'tile', 'empty', 'stats', 'projection', 'topk'] as const;

export function compressorName(compressor: number): string {
  return kCompressors[compressor] ?? `compressor ${compressor}`;
}

/**
 * Cuts a binary message into records and checks both checksums of each. Throws RecordError at the
 * first byte that it cannot trust: after it the borders of the records are unknown.
 */
export function decodeRecords(message: ArrayBuffer): TensorRecord[] {
  const view = new DataView(message);
  const records: TensorRecord[] = [];
  let offset = 0;
  while (offset < message.byteLength) {
    const { record, next } = decodeOne(view, offset);
    records.push(record);
    offset = next;
  }
  return records;
}

/** Little-endian numbers at offsets from the start of one record. */
class Fields {
  constructor(
    private readonly view: DataView,
    readonly at: number,
  ) {}

  // Bound to the object, so that a reader may take them apart.
  readonly u8 = (offset: number): number => this.view.getUint8(this.at + offset);
  readonly u16 = (offset: number): number => this.view.getUint16(this.at + offset, true);
  readonly u32 = (offset: number): number => this.view.getUint32(this.at + offset, true);
  readonly u64 = (offset: number): number => this.u32(offset) + this.u32(offset + 4) * 2 ** 32;

  /** All 64 bits as hexadecimal digits. */
  hex(offset: number): string {
    return this.view
      .getBigUint64(this.at + offset, true)
      .toString(16)
      .padStart(16, '0');
  }

  bytes(offset: number, length: number): Uint8Array {
    return new Uint8Array(this.view.buffer, this.view.byteOffset + this.at + offset, length);
  }
}

function decodeOne(view: DataView, at: number): { record: TensorRecord; next: number } {
  const left = view.byteLength - at;
  if (left < kHeaderBytes) throw new RecordError(`record cut off: ${left} bytes for a header`);
  const fields = new Fields(view, at);
  checkHeader(fields);
  const headerBytes = fields.u16(6);
  const payloadBytes = fields.u64(88);
  if (headerBytes + payloadBytes > left) throw new RecordError('record cut off in its payload');
  const payload = fields.bytes(headerBytes, payloadBytes);
  if (crc32c(payload) !== fields.u32(120)) throw new RecordError('payload checksum differs');
  const header = headerOf(fields);
  checkShape(header, payloadBytes);
  const next = at + headerBytes + Math.ceil(payloadBytes / 8) * 8;
  return { record: { header, payload: payload.slice().buffer }, next };
}

function checkHeader(fields: Fields): void {
  if (fields.u32(0) !== kMagic) throw new RecordError('not a record: wrong magic');
  if (fields.u16(4) !== kVersion) {
    throw new RecordError(`record version ${fields.u16(4)} is not known`);
  }
  if (fields.u16(6) < kHeaderBytes) throw new RecordError(`header of ${fields.u16(6)} bytes`);
  const checked = fields.bytes(0, kHeaderBytes - 4);
  if (crc32c(checked) !== fields.u32(124)) throw new RecordError('header checksum differs');
  if (fields.u8(66) > 4) throw new RecordError(`${fields.u8(66)} dimensions`);
}

function checkShape({ shape, dtype }: RecordHeader, payloadBytes: number): void {
  const width = kDtypes.get(dtype)?.bytes;
  if (width === undefined) return;
  const heads = dtype === kU8 ? linesOf(shape) * kU8LineBytes : 0;
  if (elementsOf(shape) * width + heads !== payloadBytes) {
    throw new RecordError(`${payloadBytes} bytes for shape ${shape.join('×')}`);
  }
}

function headerOf(fields: Fields): RecordHeader {
  const { u8, u16, u32, u64 } = fields;
  return {
    run: fields.hex(8),
    sequence: u64(16),
    step: u64(24),
    plan: u32(32),
    entry: u32(36),
    microBatch: u32(40),
    promptSet: u32(44),
    firstRow: u32(48),
    point: u16(52),
    layer: u16(54),
    tensorRank: u16(56),
    pipelineRank: u16(58),
    dataRank: u16(60),
    phase: u8(62),
    direction: u8(63),
    dtype: u8(64),
    compressor: u8(65),
    shape: Array.from({ length: u8(66) }, (_, i) => u32(68 + 4 * i)),
    features: u32(84),
    time: u64(96),
  };
}
