// CRC-32C (Castagnoli) with the reflected polynomial 0x82F63B78 and sixteen tables ("slicing by 16").
// The chain of dependent table lookups takes most of the time. With sixteen tables, this chain has
// one lookup for each 16 bytes.
const kAtOnce = 16;
const kTables = makeTables();

/**
 * All tables in one array, 256 numbers each. Table n gives the effect on the CRC of a byte that n
 * bytes follow.
 */
function makeTables(): Int32Array {
  const tables = new Int32Array(kAtOnce * 256);
  for (let i = 0; i < 256; i++) {
    let crc = i;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
    tables[i] = crc;
  }
  for (let i = 256; i < tables.length; i++) {
    const below = tables[i - 256];
    tables[i] = (below >>> 8) ^ tables[below & 255];
  }
  return tables;
}

/** The effect on the CRC of a little-endian word that `after` more bytes follow. */
function ofWord(word: number, after: number): number {
  const last = after * 256;
  return (
    kTables[last + 768 + (word & 255)] ^
    kTables[last + 512 + ((word >>> 8) & 255)] ^
    kTables[last + 256 + ((word >>> 16) & 255)] ^
    kTables[last + (word >>> 24)]
  );
}

/** CRC-32C of the bytes, as an unsigned 32-bit number. */
export function crc32c(bytes: Uint8Array): number {
  const words = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const whole = bytes.length - (bytes.length % kAtOnce);
  let crc = -1;
  for (let i = 0; i < whole; i += kAtOnce) {
    crc =
      ofWord(words.getInt32(i, true) ^ crc, 12) ^
      ofWord(words.getInt32(i + 4, true), 8) ^
      ofWord(words.getInt32(i + 8, true), 4) ^
      ofWord(words.getInt32(i + 12, true), 0);
  }
  for (let i = whole; i < bytes.length; i++) {
    crc = kTables[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
  }
  return (crc ^ -1) >>> 0;
}
