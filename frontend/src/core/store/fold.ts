import { codesOf, type Floats, kFirstName, linesToFloats, specialOf } from '../../protocol/numbers';
import { kU8, kU8LineBytes, type TensorRecord } from '../../protocol/record';
import { type MapData, statsOf } from './map_data';

/**
 * Folds a map to at most `rows` × `cols` cells. Each folded cell has the NaN, the Inf or the value
 * farthest from 0 of its original cells, so that outliers remain visible. The value of a missing cell
 * is 0. `old` is a fold that is not needed any more; its memory is reused if it fits.
 */
export function foldExtremes(map: MapData, rows: number, cols: number, old?: MapData): MapData {
  const outRows = Math.max(1, Math.min(rows, map.rows));
  const outCols = Math.max(1, Math.min(cols, map.cols));
  if (outRows === map.rows && outCols === map.cols) return map;
  const values = zeros(outRows * outCols, old?.values);
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

/** Reuses old memory: new memory costs more than the fold, because the system zeroes each page. */
function zeros(length: number, old: Floats | undefined): Float32Array<ArrayBuffer> {
  if (old instanceof Float32Array && old.length === length) return old.fill(0);
  return new Float32Array(length);
}

/** Folds the cells of one row, from `start` on, into the cells of `out`, from `to` on. */
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

/** Compares magnitudes: Inf is larger than all numbers, and NaN is larger than Inf. */
export function isLarger(value: number, held: number): boolean {
  return held === held && !(Math.abs(value) <= Math.abs(held));
}

/**
 * As foldRow, on the bits of float32 numbers. Without the sign bit, the bits have the order of the
 * magnitudes, with Inf and NaN at the end. The inner loop has no branch, because the branch would be
 * mispredicted often.
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

/** As foldBits, if the number of columns does not change. */
function foldOnto(
  values: Int32Array,
  start: number,
  cols: number,
  out: Int32Array,
  to: number,
): void {
  for (let col = 0; col < cols; col++) out[to + col] = larger(out[to + col], values[start + col]);
}

const kSizeBits = 0x7fffffff;

/** The bits of the float32 with the larger magnitude, of two given by their bits; without a branch. */
function larger(held: number, bits: number): number {
  const more = (bits & kSizeBits) - (held & kSizeBits);
  return held ^ ((held ^ bits) & ~(more >> 31));
}

function bitsOf(values: Floats): Int32Array | undefined {
  if (values instanceof Float64Array) return undefined;
  return new Int32Array(values.buffer, values.byteOffset, values.length);
}

/** Marks each folded cell of which all original cells are missing. */
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

/** The end of each of `bins` equal parts of `length` cells. */
function endsOf(length: number, bins: number): Uint32Array {
  return Uint32Array.from({ length: bins }, (_, bin) => startOf(bin + 1, length, bins));
}

function startOf(bin: number, length: number, bins: number): number {
  return Math.ceil((bin * length) / bins);
}

/** The first and the last original cell of a folded cell, for `length` cells and `bins` folded cells. */
export function foldedPart(bin: number, length: number, bins: number): readonly [number, number] {
  return [startOf(bin, length, bins), startOf(bin + 1, length, bins) - 1];
}

/** The lines of a record that make a map: the first line, the number of lines, and their width. */
export interface LineRange {
  readonly first: number;
  readonly lines: number;
  readonly width: number;
}

/** The lines as a map of at most `most` × `most` cells; the statistics include every number. */
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

/** The lines as a map with every number. */
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

/** The statistics that a fold collects. */
interface Tally {
  min: number;
  max: number;
  nan: number;
  posInf: number;
  negInf: number;
}

/**
 * Folds codes without decoding all of them. Within a line, codes have the order of their values, so
 * only the smallest and the largest code of a cell matter. It must process 100 MB per second.
 */
function foldCodes(record: TensorRecord, range: LineRange, most: number): MapData {
  const { first, lines, width } = range;
  const { heads, codes, columns } = codesOf(record.payload, record.header.shape);
  const rows = Math.min(most, lines);
  const cols = Math.min(most, width);
  const values = new Float32Array(rows * cols);
  const folder = new LineFolder(codes, width, values, cols);
  const tally = { min: Infinity, max: -Infinity, nan: 0, posInf: 0, negInf: 0 };
  for (let line = 0; line < lines; line++) {
    const head = (first + line) * kU8LineBytes;
    const numbers = {
      offset: heads.getFloat32(head, true),
      scale: heads.getFloat32(head + 4, true),
    };
    const row = Math.floor((line * rows) / lines);
    folder.fold((first + line) * columns, numbers, row * cols, tally);
  }
  const present = new Uint8Array(rows).fill(1);
  return { rows, cols, values, present, stats: statsOfFold(tally, range) };
}

interface LineNumbers {
  readonly offset: number;
  readonly scale: number;
}

/** Folds lines of `width` codes onto cells, which keep the NaN, the Inf or the number farthest from 0. */
class LineFolder {
  private readonly words: DataView;
  private readonly ends: Uint32Array;
  private readonly cellBits: Int32Array;
  /** A buffer of one number, also readable as bits. */
  private readonly number = new Float32Array(1);
  private readonly numberBits = new Int32Array(this.number.buffer);
  /** The smallest and the largest code of the line that was folded last. */
  private least = 0;
  private largest = 0;

  constructor(
    private readonly codes: Uint8Array,
    private readonly width: number,
    private readonly cells: Float32Array<ArrayBuffer>,
    cols: number,
  ) {
    this.words = new DataView(codes.buffer, codes.byteOffset, codes.length);
    this.ends = endsOf(width, cols);
    this.cellBits = new Int32Array(cells.buffer);
  }

  /** Folds the line whose codes begin at `start` onto the cells from `to` on. */
  fold(start: number, numbers: LineNumbers, to: number, tally: Tally): void {
    const { offset, scale } = numbers;
    if (offset >= 0) this.foldUnsigned(start, numbers, to);
    else this.foldSigned(start, numbers, to);
    if (this.largest >= kFirstName) {
      // A special code was folded as a number above, but only in its own cell. foldNamed writes NaN or
      // Inf into this cell, which is larger than any number.
      this.foldNamed(start, numbers, to, tally);
      return;
    }
    tally.min = Math.min(tally.min, offset + this.least * scale);
    tally.max = Math.max(tally.max, offset + this.largest * scale);
  }

  /** Folds a line without negative numbers: the largest code of a cell is farthest from 0. */
  private foldUnsigned(start: number, { offset, scale }: LineNumbers, to: number): void {
    const { codes, ends, cellBits, number, numberBits } = this;
    const filled = start + this.filledOf(start);
    let ofLine = 0;
    let bin = 0;
    for (let i = start; i < filled; bin++) {
      const end = start + ends[bin];
      let held = 0;
      for (; i < end; i++) {
        // No branch, because random codes would make the processor mispredict it.
        const above = codes[i] - held;
        held += above & ~(above >> 31);
      }
      if (held > ofLine) ofLine = held;
      number[0] = offset + held * scale;
      cellBits[to + bin] = larger(cellBits[to + bin], numberBits[0]);
    }
    this.least = 0;
    this.largest = ofLine;
    if (offset === 0) return;
    number[0] = offset;
    for (; bin < ends.length; bin++) {
      cellBits[to + bin] = larger(cellBits[to + bin], numberBits[0]);
    }
  }

  /** Folds a line with negative numbers: the smallest or largest code of a cell is farthest from 0. */
  private foldSigned(start: number, { offset, scale }: LineNumbers, to: number): void {
    const { codes, ends, cellBits, number, numberBits } = this;
    this.least = 255;
    this.largest = 0;
    for (let bin = 0, i = start; bin < ends.length; bin++) {
      const end = start + ends[bin];
      let least = 255;
      let most = 0;
      for (; i < end; i++) {
        const above = codes[i] - most;
        most += above & ~(above >> 31);
        const below = codes[i] - least;
        least += below & (below >> 31);
      }
      if (most > this.largest) this.largest = most;
      if (least < this.least) this.least = least;
      const low = offset + least * scale;
      const high = offset + most * scale;
      number[0] = -low > high ? low : high;
      cellBits[to + bin] = larger(cellBits[to + bin], numberBits[0]);
    }
  }

  /** The number of codes before the zeros at the end of a line; half of an attention map is zeros. */
  private filledOf(start: number): number {
    let filled = this.width;
    while (filled >= 4 && this.words.getInt32(start + filled - 4) === 0) filled -= 4;
    return filled;
  }

  /** Folds a line whose codes include NaN or Inf. */
  private foldNamed(start: number, { offset, scale }: LineNumbers, to: number, tally: Tally): void {
    const { codes, ends, cells } = this;
    for (let bin = 0, i = start; bin < ends.length; bin++) {
      for (const end = start + ends[bin]; i < end; i++) {
        const code = codes[i];
        const value = code < kFirstName ? offset + code * scale : specialOf(code);
        if (code < kFirstName) {
          tally.min = Math.min(tally.min, value);
          tally.max = Math.max(tally.max, value);
        } else if (value !== value) tally.nan += 1;
        else if (value > 0) tally.posInf += 1;
        else tally.negInf += 1;
        if (isLarger(value, cells[to + bin])) cells[to + bin] = value;
      }
    }
  }
}

function statsOfFold(
  { min, max, nan, posInf, negInf }: Tally,
  { lines, width }: LineRange,
): MapData['stats'] {
  const finite = lines * width - nan - posInf - negInf;
  const named = { finite, nan, posInf, negInf };
  if (finite === 0) return { min: 0, max: 0, absMax: 0, ...named };
  const absMax = Math.max(Math.abs(min), Math.abs(max));
  return { min, max, absMax, ...named };
}
