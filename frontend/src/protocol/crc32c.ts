// CRC-32C (Castagnoli), reflected polynomial 0x82F63B78, by eight tables ("slicing by 8").
const kTables = makeTables();

function makeTables(): readonly Uint32Array[] {
  const tables = Array.from({ length: 8 }, () => new Uint32Array(256));
  for (let i = 0; i < 256; i++) {
    let crc = i;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
    tables[0][i] = crc;
  }
  for (let t = 1; t < 8; t++) {
    for (let i = 0; i < 256; i++) {
      const below = tables[t - 1][i];
      tables[t][i] = (below >>> 8) ^ tables[0][below & 255];
    }
  }
  return tables;
}

/** CRC-32C of the bytes, as an unsigned 32-bit number. */
export function crc32c(bytes: Uint8Array): number {
  const [t0, t1, t2, t3, t4, t5, t6, t7] = kTables;
  let crc = -1;
  let i = 0;
  const whole = bytes.length - (bytes.length % 8);
  while (i < whole) {
    crc ^= bytes[i] | (bytes[i + 1] << 8) | (bytes[i + 2] << 16) | (bytes[i + 3] << 24);
    crc =
      t7[crc & 255] ^
      t6[(crc >>> 8) & 255] ^
      t5[(crc >>> 16) & 255] ^
      t4[crc >>> 24] ^
      t3[bytes[i + 4]] ^
      t2[bytes[i + 5]] ^
      t1[bytes[i + 6]] ^
      t0[bytes[i + 7]];
    i += 8;
  }
  while (i < bytes.length) {
    crc = t0[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
    i += 1;
  }
  return (crc ^ -1) >>> 0;
}
