import { expect, test } from 'vitest';
import { bytesOf } from './base64';

test('bytes of a text in Base64, beyond ASCII', () => {
  expect([...new Uint8Array(bytesOf('AP+A'))]).toEqual([0, 255, 128]);
  expect(bytesOf('').byteLength).toBe(0);
});

test('anything else is an error', () => {
  expect(() => bytesOf('A+%')).toThrow('not in base64');
});
