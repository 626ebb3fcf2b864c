import { expect, test } from 'vitest';
import { crc32c } from './crc32c';

/** Computes the checksum bit by bit from the polynomial. */
function slow(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return ~crc >>> 0;
}

test('crc32c gives the published check value', () => {
  expect(crc32c(new TextEncoder().encode('123456789'))).toBe(0xe3069283);
});

test('crc32c of the test vectors of RFC 3720', () => {
  expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
  expect(crc32c(new Uint8Array(32).fill(255))).toBe(0x62a8ab43);
  expect(crc32c(Uint8Array.from({ length: 32 }, (_, i) => i))).toBe(0x46dd794e);
});

test('crc32c agrees with the bitwise form at every length and offset', () => {
  const bytes = Uint8Array.from({ length: 80 }, (_, i) => (i * 37 + 11) & 255);
  for (let from = 0; from < 9; from++) {
    for (let to = from; to <= 80; to++) {
      expect(crc32c(bytes.subarray(from, to))).toBe(slow(bytes.subarray(from, to)));
    }
  }
});
