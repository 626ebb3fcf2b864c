import { kU8, kU8LineBytes, linesOf, type TensorRecord } from './record';

export type Floats = Float32Array<ArrayBuffer> | Float64Array<ArrayBuffer>;

/** The payload as numbers, or undefined for a dtype that this version cannot show. */
export function toFloats(record: TensorRecord): Floats | undefined {
  const { payload } = record;
  switch (record.header.dtype) {
    case 1:
      return new Float64Array(payload);
    case 2:
      return new Float32Array(payload);
    case 3:
      return Float32Array.from(new Uint16Array(payload), halfToFloat);
    case 4:
      return bfloatsToFloats(new Uint16Array(payload));
    case 5:
      return Float64Array.from(new Int32Array(payload));
    case 6:
      return Float64Array.from(new BigInt64Array(payload), Number);
    case kU8:
      return codesToFloats(payload, record.header.shape);
    default:
      return undefined;
  }
}

/** The payload as whole numbers (token ids), or undefined if it holds none. */
export function toIntegers(record: TensorRecord): Int32Array<ArrayBuffer> | undefined {
  if (record.header.dtype === 5) return new Int32Array(record.payload);
  if (record.header.dtype === 6) return Int32Array.from(new BigInt64Array(record.payload), Number);
  return undefined;
}

function bfloatsToFloats(halves: Uint16Array): Float32Array<ArrayBuffer> {
  const bits = new Uint32Array(halves.length);
  for (let i = 0; i < halves.length; i++) bits[i] = halves[i] << 16;
  return new Float32Array(bits.buffer);
}

// Codes from here on are names; those below are numbers.
const kCodeNan = 253;
const kCodePosInf = 254;
const kCodeNegInf = 255;

/** Every line has an offset and a scale; all of them stand before the codes. */
function codesToFloats(payload: ArrayBuffer, shape: readonly number[]): Float32Array<ArrayBuffer> {
  const lines = linesOf(shape);
  const heads = new DataView(payload);
  const codes = new Uint8Array(payload, lines * kU8LineBytes);
  const columns = lines === 0 ? 0 : codes.length / lines;
  const out = new Float32Array(codes.length);
  for (let line = 0; line < lines; line++) {
    const offset = heads.getFloat32(line * kU8LineBytes, true);
    const scale = heads.getFloat32(line * kU8LineBytes + 4, true);
    for (let i = line * columns; i < (line + 1) * columns; i++) {
      out[i] = codes[i] < kCodeNan ? offset + codes[i] * scale : specialOf(codes[i]);
    }
  }
  return out;
}

function specialOf(code: number): number {
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
