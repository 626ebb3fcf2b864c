import { codesOf, type Floats, kFirstName, linesToFloats, specialOf } from '../protocol/numbers';
import { kU8, kU8LineBytes, type TensorRecord } from '../protocol/record';
import { type MapData, statsOf } from './map_data';

/**
 * Folds a map to at most `rows` × `cols` cells so that nothing notable is lost: each cell shows
 * the NaN, the Inf or the value farthest from 0 of those that it stands for. A missing cell's value
 * is 0.
 */
export function foldExtremes(map: MapData, rows: number, cols: number): MapData {
  const outRows = Math.max(1, Math.min(rows, map.rows));
  const outCols = Math.max(1, Math.min(cols, map.cols));
  if (outRows === map.rows && outCols === map.cols) return map;
  const values = new Float32Array(outRows * outCols);
  const present = new Uint8Array(outRows);
  const absent = map.absent === undefined ? undefined : new Uint8Array(values.length).fill(1);
  const ends = endsOf(map.cols, outCols);
  const bits = bitsOf(map.values);
  const outBits = new Int32Array(values.buffer);
  for (let row = 0; row < map.rows; row++) {
    if (map.present[row] === 0) continue;
    const outRow = Math.floor((row * outRows) / map.rows);
    present[outRow] = 1;
    const [start, to] = [row * map.cols, outRow * outCols];
    if (bits === undefined) foldRow(map.values, start, ends, values, to);
    else if (outCols === map.cols) foldOnto(bits, start, outCols, outBits, to);
    else foldBits(bits, start, ends, outBits, to);
    if (map.absent === undefined || absent === undefined) continue;
    foldAbsent(map.absent, start, ends, absent, to);
  }
  return { rows: outRows, cols: outCols, values, present, absent, stats: map.stats };
}

/** Folds the cells of one row from `start` on into `out`, from `to` on. */
function foldRow(
  values: Floats,
  start: number,
  ends: Uint32Array,
  out: Float32Array,
  to: number,
): void {
  let i = start;
  for (let bin = 0; bin < ends.length; bin++) {
    const end = start + ends[bin];
    let held = out[to + bin];
    for (; i < end; i++) if (isLarger(values[i], held)) held = values[i];
    out[to + bin] = held;
  }
}

/** In size, with Inf above all numbers and NaN above all. */
function isLarger(value: number, held: number): boolean {
  return held === held && !(Math.abs(value) <= Math.abs(held));
}

/**
 * As foldRow, of float32 by their bits: without the sign they are ordered as the sizes are, with Inf
 * and NaN at the end. There is no branch that numbers of all sizes would mispredict.
 */
function foldBits(
  values: Int32Array,
  start: number,
  ends: Uint32Array,
  out: Int32Array,
  to: number,
): void {
  let i = start;
  for (let bin = 0; bin < ends.length; bin++) {
    const end = start + ends[bin];
    let held = out[to + bin];
    let size = held & kSizeBits;
    for (; i < end; i++) {
      const bits = values[i];
      const more = (bits & kSizeBits) - size;
      const isNotLess = ~(more >> 31);
      size += more & isNotLess;
      held ^= (held ^ bits) & isNotLess;
    }
    out[to + bin] = held;
  }
}

/** As foldBits, where the columns stay. */
function foldOnto(
  values: Int32Array,
  start: number,
  cols: number,
  out: Int32Array,
  to: number,
): void {
  for (let col = 0; col < cols; col++) {
    const bits = values[start + col];
    const held = out[to + col];
    const more = (bits & kSizeBits) - (held & kSizeBits);
    out[to + col] = held ^ ((held ^ bits) & ~(more >> 31));
  }
}

const kSizeBits = 0x7fffffff;

function bitsOf(values: Floats): Int32Array | undefined {
  if (values instanceof Float64Array) return undefined;
  return new Int32Array(values.buffer, values.byteOffset, values.length);
}

/** Of each folded cell whether all that it stands for is missing. */
function foldAbsent(
  absent: Uint8Array,
  start: number,
  ends: Uint32Array,
  out: Uint8Array,
  to: number,
): void {
  for (let bin = 0, col = 0; bin < ends.length; bin++) {
    for (; col < ends[bin]; col++) out[to + bin] &= absent[start + col];
  }
}

/** Where each of `bins` even parts of `length` cells ends. */
function endsOf(length: number, bins: number): Uint32Array {
  return Uint32Array.from({ length: bins }, (_, bin) => Math.ceil(((bin + 1) * length) / bins));
}

/** Lines of a record that make a map: so many from one on, and so many numbers of each. */
export interface LineRange {
  readonly first: number;
  readonly lines: number;
  readonly width: number;
}

/** The lines as a map of at most `most` × `most` cells; the statistics count every number. */
export function foldLines(
  record: TensorRecord,
  range: LineRange,
  most: number,
): MapData | undefined {
  if (range.lines === 0 || range.width === 0) return undefined;
  if (record.header.dtype === kU8) return foldCodes(record, range, most);
  const map = mapOfLines(record, range);
  return map === undefined ? undefined : foldExtremes(map, most, most);
}

/** The lines as a map, number by number. */
export function mapOfLines(record: TensorRecord, range: LineRange): MapData | undefined {
  const { first, lines, width } = range;
  const columns = record.header.shape.at(-1) ?? 1;
  const all = linesToFloats(record, first, lines);
  if (all === undefined) return undefined;
  let values = all;
  if (width !== columns) {
    values = all.slice(0, lines * width);
    for (let line = 0; line < lines; line++) {
      values.set(all.subarray(line * columns, line * columns + width), line * width);
    }
  }
  const present = new Uint8Array(lines).fill(1);
  return { rows: lines, cols: width, values, present, stats: statsOf(values, present, width) };
}

/** What a fold counts on its way. */
interface Tally {
  min: number;
  max: number;
  nan: number;
  posInf: number;
  negInf: number;
}

/**
 * Folds codes without decoding them all: within a line the order of codes is that of their values,
 * so only the least and the largest code of a cell count. It must keep up with 100 MB a second.
 */
function foldCodes(record: TensorRecord, range: LineRange, most: number): MapData {
  const { first, lines, width } = range;
  const { heads, codes, columns } = codesOf(record.payload, record.header.shape);
  const rows = Math.min(most, lines);
  const cols = Math.min(most, width);
  const values = new Float32Array(rows * cols);
  const ends = endsOf(width, cols);
  const ranks = { least: new Uint8Array(cols), most: new Uint8Array(cols) };
  const tally = { min: Infinity, max: -Infinity, nan: 0, posInf: 0, negInf: 0 };
  for (let line = 0; line < lines; line++) {
    const head = (first + line) * kU8LineBytes;
    const offset = heads.getFloat32(head, true);
    const scale = heads.getFloat32(head + 4, true);
    const start = (first + line) * columns;
    const part = codes.subarray(start, start + width);
    const to = Math.floor((line * rows) / lines) * cols;
    const out = values.subarray(to, to + cols);
    const largest = largestCodes(part, ends, ranks.most);
    if (largest >= kFirstName) {
      foldNamed(part, ends, { offset, scale }, out, tally);
      continue;
    }
    // Of a line without negative numbers the least ones lie nearest to 0: no cell shows them.
    const least = offset < 0 ? leastCodes(part, ends, ranks.least) : 0;
    tally.min = Math.min(tally.min, offset + least * scale);
    tally.max = Math.max(tally.max, offset + largest * scale);
    for (let bin = 0; bin < cols; bin++) {
      const low = offset < 0 ? offset + ranks.least[bin] * scale : 0;
      const high = offset + ranks.most[bin] * scale;
      const value = -low > high ? low : high;
      if (isLarger(value, out[bin])) out[bin] = value;
    }
  }
  const present = new Uint8Array(rows).fill(1);
  return { rows, cols, values, present, stats: statsOfFold(values, present, cols, tally, range) };
}

/** The largest code of each part of a line; returns that of the line. */
function largestCodes(codes: Uint8Array, ends: Uint32Array, out: Uint8Array): number {
  let ofLine = 0;
  for (let bin = 0, i = 0; bin < ends.length; bin++) {
    const end = ends[bin];
    let most = 0;
    for (; i < end; i++) {
      // Without a branch, which random codes would mispredict.
      const above = codes[i] - most;
      most += above & ~(above >> 31);
    }
    out[bin] = most;
    if (most > ofLine) ofLine = most;
  }
  return ofLine;
}

/** The least code of each part of a line; returns that of the line. */
function leastCodes(codes: Uint8Array, ends: Uint32Array, out: Uint8Array): number {
  let ofLine = 255;
  for (let bin = 0, i = 0; bin < ends.length; bin++) {
    const end = ends[bin];
    let least = 255;
    for (; i < end; i++) {
      const below = codes[i] - least;
      least += below & (below >> 31);
    }
    out[bin] = least;
    if (least < ofLine) ofLine = least;
  }
  return ofLine;
}

/** A line that has NaN or Inf among its codes. */
function foldNamed(
  codes: Uint8Array,
  ends: Uint32Array,
  { offset, scale }: { readonly offset: number; readonly scale: number },
  out: Float32Array,
  tally: Tally,
): void {
  for (let bin = 0, i = 0; bin < ends.length; bin++) {
    for (; i < ends[bin]; i++) {
      const code = codes[i];
      const value = code < kFirstName ? offset + code * scale : specialOf(code);
      if (code < kFirstName) {
        tally.min = Math.min(tally.min, value);
        tally.max = Math.max(tally.max, value);
      } else if (value !== value) tally.nan += 1;
      else if (value > 0) tally.posInf += 1;
      else tally.negInf += 1;
      if (isLarger(value, out[bin])) out[bin] = value;
    }
  }
}

/** The 99th percentile is that of the folded cells: no less than that of all numbers. */
function statsOfFold(
  values: Float32Array<ArrayBuffer>,
  present: Uint8Array,
  cols: number,
  { min, max, nan, posInf, negInf }: Tally,
  { lines, width }: LineRange,
): MapData['stats'] {
  const finite = lines * width - nan - posInf - negInf;
  const { abs99 } = statsOf(values, present, cols);
  if (finite === 0) return { min: 0, max: 0, absMax: 0, abs99, finite, nan, posInf, negInf };
  const absMax = Math.max(Math.abs(min), Math.abs(max));
  return { min, max, absMax, abs99, finite, nan, posInf, negInf };
}
