// Writes records as docs/protocol.md describes them.

export interface RecordFields {
  readonly run: bigint;
  readonly sequence: number;
  readonly step: number;
  readonly plan: number;
  readonly entry: number;
  readonly point: number;
  readonly layer: number;
  readonly phase: number;
  readonly dtype: number;
  readonly compressor: number;
  readonly shape: readonly number[];
  readonly features: number;
}

const kFast = ((): Uint32Array => {
  const table = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    let crc = i;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
    table[i] = crc;
  }
  return table;
})();

export function tableCrc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = kFast[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

export function encodeRecord(fields: RecordFields, payload: Uint8Array): Buffer {
  const padded = Math.ceil(payload.length / 8) * 8;
  const out = Buffer.alloc(128 + padded);
  out.write('TTF1', 0, 'latin1');
  out.writeUInt16LE(1, 4);
  out.writeUInt16LE(128, 6);
  out.writeBigUInt64LE(fields.run, 8);
  out.writeBigUInt64LE(BigInt(fields.sequence), 16);
  out.writeBigUInt64LE(BigInt(fields.step), 24);
  out.writeUInt32LE(fields.plan, 32);
  out.writeUInt32LE(fields.entry, 36);
  out.writeUInt16LE(fields.point, 52);
  out.writeUInt16LE(fields.layer, 54);
  out.writeUInt8(fields.phase, 62);
  out.writeUInt8(fields.dtype, 64);
  out.writeUInt8(fields.compressor, 65);
  out.writeUInt8(fields.shape.length, 66);
  for (let i = 0; i < 4; i++) out.writeUInt32LE(fields.shape[i] ?? 1, 68 + 4 * i);
  out.writeUInt32LE(fields.features, 84);
  out.writeBigUInt64LE(BigInt(payload.length), 88);
  out.writeBigUInt64LE(BigInt(Date.now()) * 1000000n, 96);
  out.set(payload, 128);
  out.writeUInt32LE(tableCrc32c(payload), 120);
  out.writeUInt32LE(tableCrc32c(out.subarray(0, 124)), 124);
  return out;
}
