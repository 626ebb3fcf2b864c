import { crc32c } from './crc32c';
import {
  dtypeBytes,
  elementsOf,
  kU8,
  kU8LineBytes,
  linesOf,
  type RecordHeader,
  type TensorRecord,
} from './record';

const kMagic = 0x31465454;
const kVersion = 1;
const kHeaderBytes = 128;

export class RecordError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'RecordError';
  }
}

/**
 * Splits a binary message into records and checks both checksums of each record. Throws RecordError
 * at the first invalid record, because the boundaries of the records after it are unknown.
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
    private readonly view: DataView<ArrayBuffer>,
    readonly at: number,
  ) {}

  // Arrow functions are bound to the object, so that a caller can destructure it.
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

  bytes(offset: number, length: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.view.buffer, this.view.byteOffset + this.at + offset, length);
  }
}

function decodeOne(
  view: DataView<ArrayBuffer>,
  at: number,
): { record: TensorRecord; next: number } {
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
  // In a message of several records, each gets its own buffer, so that each can be freed separately.
  const isAlone = at === 0 && next >= view.byteLength && headerBytes % 8 === 0;
  return { record: { header, payload: isAlone ? payload : payload.slice() }, next };
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
  const width = dtypeBytes(dtype);
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
