import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { toFloats, toIntegers } from './numbers';
import { dtypeName } from './record';
import { decodeRecords } from './record_reader';

// One record, written byte by byte from the table in docs/protocol.md. The checksums come from a
// separate tool.
const kHeaderHex =
  '54544631 0100 8000 efcdab8967452301 0700000000000000 0d00000000000000 ' +
  '03000000 01000000 02000000 00000000 08000000 0700 0300 0100 0200 0300 ' +
  '01 00 02 01 03 00 01000000 02000000 02000000 01000000 00010000 1000000000000000 ' +
  '00e40b5402000000 00000000000000000000000000000000';
const kPayloadHex = '0000803f 000000c0 0000c07f 000080ff';

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(Buffer.from(hex.replace(/\s/g, ''), 'hex'));
}

function crc(bytes: Uint8Array): number {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0x82f63b78 : 0);
  }
  return ~sum >>> 0;
}

function bytesIn(message: ArrayBuffer): Uint8Array {
  return new Uint8Array(message);
}

interface Change {
  readonly headerBytes?: number;
  readonly patch?: (header: DataView) => void;
}

function build(payloadHex = kPayloadHex, { headerBytes = 128, patch }: Change = {}): ArrayBuffer {
  const payload = bytesOf(payloadHex);
  const padded = Math.ceil(payload.length / 8) * 8;
  const out = new Uint8Array(headerBytes + padded);
  out.set(bytesOf(kHeaderHex));
  out.set(payload, headerBytes);
  const view = new DataView(out.buffer);
  view.setUint16(6, headerBytes, true);
  view.setUint32(88, payload.length, true);
  patch?.(view);
  view.setUint32(120, crc(payload), true);
  view.setUint32(124, crc(out.subarray(0, 124)), true);
  return out.buffer;
}

describe('decodeRecords', () => {
  test('reads every field of the header', () => {
    const [record] = decodeRecords(build());
    expect(record.header).toEqual({
      run: '0123456789abcdef',
      sequence: 7,
      step: 13,
      plan: 3,
      entry: 1,
      microBatch: 2,
      promptSet: 0,
      firstRow: 8,
      point: 7,
      layer: 3,
      tensorRank: 1,
      pipelineRank: 2,
      dataRank: 3,
      phase: 1,
      direction: 0,
      dtype: 2,
      compressor: 1,
      shape: [1, 2, 2],
      features: 256,
      time: 10_000_000_000,
    });
    expect([...(toFloats(record) ?? [])]).toEqual([1, -2, Number.NaN, Number.NEGATIVE_INFINITY]);
  });

  test('reads records end to end and skips padding and longer headers', () => {
    const short = build('0100', { patch: halves });
    const long = build(kPayloadHex, { headerBytes: 136 });
    const joined = new Uint8Array(short.byteLength + long.byteLength);
    joined.set(new Uint8Array(short));
    joined.set(new Uint8Array(long), short.byteLength);
    const records = decodeRecords(joined.buffer);
    expect(records.map((record) => record.payload.byteLength)).toEqual([2, 16]);
    expect(toFloats(records[1])?.[1]).toBe(-2);
  });

  test('copies payloads only where several share a message, or none could be read in place', () => {
    const alone = build();
    expect(decodeRecords(alone)[0].payload.buffer).toBe(alone);
    const [first, second] = decodeRecords(
      Uint8Array.of(...bytesIn(alone), ...bytesIn(alone)).buffer,
    );
    expect(first.payload.buffer.byteLength).toBe(16);
    expect(second.payload.buffer.byteLength).toBe(16);
    const [odd] = decodeRecords(build(kPayloadHex, { headerBytes: 129 }));
    expect(toFloats(odd)?.[1]).toBe(-2);
  });

  test('refuses a changed header, a changed payload, a cut and a foreign version', () => {
    const flip = (at: number): ArrayBuffer => {
      const bytes = new Uint8Array(build());
      bytes[at] ^= 1;
      return bytes.buffer;
    };
    expect(() => decodeRecords(flip(24))).toThrow('header checksum');
    expect(() => decodeRecords(flip(130))).toThrow('payload checksum');
    expect(() => decodeRecords(flip(0))).toThrow('magic');
    expect(() => decodeRecords(flip(4))).toThrow('version');
    expect(() => decodeRecords(build().slice(0, 100))).toThrow('cut off');
    expect(() => decodeRecords(build().slice(0, 136))).toThrow('cut off');
  });

  test('refuses a shape that the payload does not fill', () => {
    const wrong = build(kPayloadHex, { patch: (view) => view.setUint32(68, 5, true) });
    expect(() => decodeRecords(wrong)).toThrow('for shape');
  });

  test('a u8 payload has offset and scale for each line', () => {
    const codes = (bytes: number, ndim: number): ArrayBuffer =>
      build('00'.repeat(bytes), {
        patch: (view) => {
          view.setUint8(64, 7);
          view.setUint8(66, ndim);
        },
      });
    expect(decodeRecords(codes(2 * 8 + 4, 3))).toHaveLength(1);
    expect(decodeRecords(codes(8 + 1, 0))).toHaveLength(1);
    for (const bytes of [4, 8 + 4, 4 * 8 + 4]) {
      expect(() => decodeRecords(codes(bytes, 3))).toThrow('for shape');
    }
  });

  test('keeps a record of an unknown dtype, and shows it as such', () => {
    const [record] = decodeRecords(build(kPayloadHex, { patch: (view) => view.setUint8(64, 99) }));
    expect(toFloats(record)).toBeUndefined();
    expect(dtypeName(99)).toBe('dtype 99');
  });

  function halves(view: DataView): void {
    view.setUint8(64, 4);
    view.setUint8(66, 1);
    view.setUint32(68, 1, true);
  }
});

describe('toFloats and toIntegers', () => {
  const one = (dtype: number, hex: string, length: number): ArrayBuffer =>
    build(hex, {
      patch: (view) => {
        view.setUint8(64, dtype);
        view.setUint8(66, 1);
        view.setUint32(68, length, true);
      },
    });

  test('bf16, f16, f64 and the integers', () => {
    expect([...(toFloats(decodeRecords(one(4, '803f20c1807f', 3))[0]) ?? [])]).toEqual([
      1,
      -10,
      Number.POSITIVE_INFINITY,
    ]);
    expect([...(toFloats(decodeRecords(one(3, '003c00c20100007c', 4))[0]) ?? [])]).toEqual([
      1,
      -3,
      2 ** -24,
      Number.POSITIVE_INFINITY,
    ]);
    expect(toFloats(decodeRecords(one(1, '000000000000f83f', 1))[0])?.[0]).toBe(1.5);
    expect(toIntegers(decodeRecords(one(5, '0a000000ffffffff', 2))[0])).toEqual(
      Int32Array.of(10, -1),
    );
    expect(toIntegers(decodeRecords(one(6, '2a00000000000000', 1))[0])).toEqual(Int32Array.of(42));
  });

  test('f16 and u8 become float32', () => {
    const half = toFloats(decodeRecords(one(3, '007c00fc007e', 3))[0]);
    expect(half).toEqual(
      Float32Array.of(Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN),
    );
    // Offset -1, scale 0.5; the codes 0 and 252, and those of NaN, +Inf and −Inf.
    const codes = toFloats(decodeRecords(one(7, '000080bf 0000003f 00fcfdfeff', 5))[0]);
    const { NaN: nan, POSITIVE_INFINITY: inf } = Number;
    expect(codes).toEqual(Float32Array.of(-1, 125, nan, inf, -inf));
  });

  test('lines of nothing are no numbers', () => {
    expect(toFloats(decodeRecords(one(7, '', 0))[0])).toEqual(new Float32Array(0));
  });
});

test('the golden file of version 1 reads as its description says', () => {
  interface Golden {
    readonly records: readonly {
      readonly header: Readonly<Record<string, unknown>> & { readonly ndim: number };
      readonly payload_hex: string;
      readonly numbers: readonly (number | string)[];
    }[];
  }
  const folder = join(import.meta.dirname, '..', '..', '..', 'tests', 'golden');
  const golden = JSON.parse(readFileSync(join(folder, 'record_v1.json'), 'utf8')) as Golden;
  const bytes = readFileSync(join(folder, 'record_v1.bin'));
  const records = decodeRecords(Uint8Array.from(bytes).buffer);
  expect(records).toHaveLength(golden.records.length);
  records.forEach(({ header, payload }, i) => {
    const wanted = golden.records[i];
    expect(Buffer.from(payload).toString('hex')).toBe(wanted.payload_hex);
    for (const name of ['sequence', 'step', 'plan', 'entry', 'layer', 'phase', 'dtype'] as const) {
      expect(header[name]).toBe(wanted.header[name]);
    }
    expect(header.compressor).toBe(wanted.header.compressor);
    expect([...(toFloats(records[i]) ?? [])]).toEqual(wanted.numbers.map(Number));
    expect(header.microBatch).toBe(wanted.header.micro_batch);
    expect(header.shape).toEqual((wanted.header.shape as number[]).slice(0, wanted.header.ndim));
  });
});
