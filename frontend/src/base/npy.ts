/** A dense array in row-major order, for export to other programs. */
export interface PlainArray {
  readonly shape: readonly number[];
  readonly data: Float32Array | Float64Array | Int32Array | Uint8Array;
}

const kMagic = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0];
const kAlignment = 64;

/** The bytes of a `.npy` file, version 1.0; the bits of each number are unchanged. */
export function npyOf({ shape, data }: PlainArray): Uint8Array {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return npyFile(descrOf(data), shape, bytes);
}

/** The `.npy` file of whole numbers as int64, because a step can exceed int32. */
export function npyOfIntegers(numbers: readonly number[]): Uint8Array {
  const { buffer } = BigInt64Array.from(numbers, BigInt);
  return npyFile('<i8', [numbers.length], new Uint8Array(buffer));
}

/** The `.npy` file of a text, an array without dims that NumPy reads without pickle. */
export function npyOfText(text: string): Uint8Array {
  const points = Uint32Array.from(text, (character) => character.codePointAt(0) ?? 0);
  return npyFile(`<U${points.length}`, [], new Uint8Array(points.buffer));
}

function descrOf(data: PlainArray['data']): string {
  if (data instanceof Float32Array) return '<f4';
  if (data instanceof Float64Array) return '<f8';
  return data instanceof Int32Array ? '<i4' : '|u1';
}

function npyFile(descr: string, shape: readonly number[], bytes: Uint8Array): Uint8Array {
  const dims = shape.length === 1 ? `${shape[0]},` : shape.join(', ');
  const text = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${dims}), }`;
  const unpadded = kMagic.length + 2 + text.length + 1;
  const length = Math.ceil(unpadded / kAlignment) * kAlignment;
  const out = new Uint8Array(length + bytes.length);
  out.set(kMagic);
  new DataView(out.buffer).setUint16(kMagic.length, length - kMagic.length - 2, true);
  out.fill(0x20, kMagic.length + 2, length);
  out.set(new TextEncoder().encode(text), kMagic.length + 2);
  out[length - 1] = 0x0a;
  out.set(bytes, length);
  return out;
}
