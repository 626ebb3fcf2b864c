import { dtypeBytes, kU8, kU8LineBytes, linesOf, type TensorRecord } from './record';

export type Floats = Float32Array<ArrayBuffer> | Float64Array<ArrayBuffer>;

type Payload = TensorRecord['payload'];

interface NumbersType<T> {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBuffer, byteOffset: number, length: number): T;
}

/** The payload as numbers, or undefined for a dtype that this version cannot show. */
export function toFloats({ header, payload }: TensorRecord): Floats | undefined {
  if (header.dtype !== kU8) return floatsOf(header.dtype, payload);
  return codesToFloats(payload, header.shape, 0, linesOf(header.shape));
}

/** A copy of `count` lines of the last dim from line `first` on, as numbers. */
export function linesToFloats(
  { header, payload }: TensorRecord,
  first: number,
  count: number,
): Floats | undefined {
  const { dtype, shape } = header;
  if (dtype === kU8) return codesToFloats(payload, shape, first, count);
  const line = (dtypeBytes(dtype) ?? 0) * (shape.at(-1) ?? 1);
  return floatsOf(dtype, payload.slice(first * line, (first + count) * line));
}

function floatsOf(dtype: number, payload: Payload): Floats | undefined {
  switch (dtype) {
    case 1:
      return numbersOf(Float64Array, payload);
    case 2:
      return numbersOf(Float32Array, payload);
    case 3:
      return Float32Array.from(numbersOf(Uint16Array, payload), halfToFloat);
    case 4:
      return bfloatsToFloats(numbersOf(Uint16Array, payload));
    case 5:
      return Float64Array.from(numbersOf(Int32Array, payload));
    case 6:
      return Float64Array.from(numbersOf(BigInt64Array, payload), Number);
    default:
      return undefined;
  }
}

/** The payload as whole numbers (token ids), or undefined if its dtype is not an integer dtype. */
export function toIntegers(record: TensorRecord): Int32Array<ArrayBuffer> | undefined {
  const { header, payload } = record;
  if (header.dtype === 5) return numbersOf(Int32Array, payload);
  if (header.dtype === 6) return Int32Array.from(numbersOf(BigInt64Array, payload), Number);
  return undefined;
}

/** A view of the payload's bytes as numbers of a type, without a copy. */
function numbersOf<T>(Type: NumbersType<T>, { buffer, byteOffset, byteLength }: Payload): T {
  return new Type(buffer, byteOffset, byteLength / Type.BYTES_PER_ELEMENT);
}

function bfloatsToFloats(halves: Uint16Array): Float32Array<ArrayBuffer> {
  const bits = new Uint32Array(halves.length);
  for (let i = 0; i < halves.length; i++) bits[i] = halves[i] << 16;
  return new Float32Array(bits.buffer);
}

/** The lowest code of a special value (NaN, +Inf, −Inf); lower codes are numbers. */
export const kFirstName = 253;
const kCodePosInf = 254;
const kCodeNegInf = 255;

/** The parts of a u8 payload: the offsets and scales of all lines come before all codes. */
export function codesOf(
  payload: Payload,
  shape: readonly number[],
): { readonly heads: DataView; readonly codes: Uint8Array; readonly columns: number } {
  const lines = linesOf(shape);
  const headBytes = lines * kU8LineBytes;
  return {
    heads: new DataView(payload.buffer, payload.byteOffset, headBytes),
    codes: payload.subarray(headBytes),
    columns: shape.at(-1) ?? 1,
  };
}

function codesToFloats(
  payload: Payload,
  shape: readonly number[],
  first: number,
  count: number,
): Float32Array<ArrayBuffer> {
  const { heads, codes, columns } = codesOf(payload, shape);
  const out = new Float32Array(count * columns);
  for (let line = 0, at = 0; line < count; line++) {
    const head = (first + line) * kU8LineBytes;
    const offset = heads.getFloat32(head, true);
    const scale = heads.getFloat32(head + 4, true);
    const start = (first + line) * columns;
    for (let i = start; i < start + columns; i++, at++) {
      out[at] = codes[i] < kFirstName ? offset + codes[i] * scale : specialOf(codes[i]);
    }
  }
  return out;
}

/** The value of a code from `kFirstName` on: NaN, +Inf or −Inf. */
export function specialOf(code: number): number {
  if (code === kCodePosInf) return Number.POSITIVE_INFINITY;
  return code === kCodeNegInf ? Number.NEGATIVE_INFINITY : Number.NaN;
}

function halfToFloat(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >>> 10) & 31;
  const fraction = half & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
