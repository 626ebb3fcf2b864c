import { describe, expect, test } from 'vitest';
import { foldedPart, foldExtremes, foldLines, mapOfLines } from './fold';
import { type MapData, statsOf } from './map_data';
import { makeRecord } from './test_records';

function mapOf(rows: number, cols: number, values: readonly number[]): MapData {
  const data = Float32Array.from(values);
  const present = new Uint8Array(rows).fill(1);
  return { rows, cols, values: data, present, stats: statsOf(data, present, cols) };
}

describe('foldExtremes', () => {
  test('a fold keeps the value farthest from 0, and NaN before all', () => {
    const map = mapOf(2, 4, [0.5, -3, 1, 2, 0, 0, Number.NaN, 5]);
    const folded = foldExtremes(map, 1, 2);
    expect([folded.rows, folded.cols]).toEqual([1, 2]);
    expect([...folded.values]).toEqual([-3, Number.NaN]);
  });

  test('float32 and float64 fold alike', () => {
    const { NaN: nan, POSITIVE_INFINITY: inf } = Number;
    const values = [0, 0, 1e-42, -2, 1.5, inf, -7, -inf, 3e38, nan, inf, 5, -1e-30, 0, 1e-31, 0];
    const map = mapOf(2, 8, values);
    const wide = { ...map, values: Float64Array.from(map.values) };
    for (const [rows, cols] of [
      [1, 1],
      [1, 4],
      [2, 3],
      [2, 7],
      [1, 8],
    ]) {
      const expected = foldExtremes(wide, rows, cols).values;
      expect([...foldExtremes(map, rows, cols).values]).toEqual([...expected]);
    }
  });

  test('parts are even: no cell is left out, none stands twice', () => {
    const map = mapOf(1, 7, [1, 0, 0, 2, 0, 0, 3]);
    expect([...foldExtremes(map, 1, 3).values]).toEqual([1, 2, 3]);
    expect([...foldExtremes(map, 1, 6).values]).toEqual([1, 0, 2, 0, 0, 3]);
  });

  test('a part is told as it was folded', () => {
    const numbers = Array.from({ length: 256 }, (_, i) => i);
    const across = foldExtremes(mapOf(1, 256, numbers), 1, 96).values;
    const down = foldExtremes(mapOf(256, 1, numbers), 96, 1).values;
    const ends = Array.from({ length: 96 }, (_, bin) => foldedPart(bin, 256, 96)[1]);
    expect([[...across], [...down]]).toEqual([ends, ends]);
    expect(foldedPart(13, 256, 96)).toEqual([35, 37]);
  });

  test('a cell of missing cells alone is missing', () => {
    const absent = Uint8Array.of(1, 1, 1, 0);
    const folded = foldExtremes({ ...mapOf(1, 4, [0, 0, 0, -2]), absent }, 1, 2);
    expect([...(folded.absent ?? [])]).toEqual([1, 0]);
    expect(folded.values[1]).toBe(-2);
  });

  test('the memory of a fold is used again, and nothing of what it held', () => {
    const old = foldExtremes(mapOf(1, 4, [9, 9, -9, Number.NaN]), 1, 2);
    const map = mapOf(2, 2, [1, 0, -2, 0]);
    const folded = foldExtremes({ ...map, present: Uint8Array.of(0, 1) }, 1, 2, old);
    expect(folded.values).toEqual(Float32Array.of(-2, 0));
    expect(folded.values.buffer).toBe(old.values.buffer);
    expect(foldExtremes(mapOf(1, 6, [1, 2, 3, 4, 5, 6]), 1, 3, old).values.length).toBe(3);
  });

  test('a map that fits is left as it is', () => {
    const map = mapOf(1, 2, [1, 2]);
    expect(foldExtremes(map, 10, 10)).toBe(map);
  });
});

describe('foldLines', () => {
  // Four lines of six codes; each line has its own offset and scale.
  const kLines = [
    { offset: -1, scale: 0.5, codes: [0, 1, 2, 3, 4, 5] },
    { offset: 0, scale: 1, codes: [9, 0, 0, 0, 253, 1] },
    { offset: 2, scale: 0, codes: [7, 7, 7, 7, 7, 7] },
    { offset: -9, scale: 3, codes: [0, 0, 254, 3, 255, 0] },
  ];

  function record(): ReturnType<typeof makeRecord> {
    const payload = new Uint8Array(4 * 8 + 24);
    const view = new DataView(payload.buffer);
    kLines.forEach(({ offset, scale, codes }, line) => {
      view.setFloat32(8 * line, offset, true);
      view.setFloat32(8 * line + 4, scale, true);
      payload.set(codes, 32 + 6 * line);
    });
    const made = makeRecord({ dtype: 7, shape: [1, 1, 4, 6] });
    return { ...made, payload };
  }

  function valueOf(line: number, col: number): number {
    const { offset, scale, codes } = kLines[line];
    const names = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    return codes[col] < 253 ? offset + codes[col] * scale : names[codes[col] - 253];
  }

  test('codes are folded as their values are', () => {
    const values = kLines.flatMap((_, line) => [0, 1, 2, 3, 4, 5].map((col) => valueOf(line, col)));
    for (const most of [1, 2, 3, 4]) {
      const folded = foldLines(record(), { first: 0, lines: 4, width: 6 }, most);
      const expected = foldExtremes(mapOf(4, 6, values), most, most);
      expect([...(folded?.values ?? [])]).toEqual([...expected.values]);
    }
  });

  test('zeros at the end of a line are its offset', () => {
    const payload = new Uint8Array(2 * 8 + 16);
    const view = new DataView(payload.buffer);
    [2, 0].forEach((offset, line) => {
      view.setFloat32(8 * line, offset, true);
      view.setFloat32(8 * line + 4, 0.5, true);
      payload[16 + 8 * line] = 4;
    });
    const one = { ...makeRecord({ dtype: 7, shape: [1, 1, 2, 8] }), payload };
    const folded = foldLines(one, { first: 0, lines: 2, width: 8 }, 4);
    expect([...(folded?.values ?? [])]).toEqual([4, 2, 2, 2, 2, 0, 0, 0]);
  });

  test('every number is counted, not every cell', () => {
    const folded = foldLines(record(), { first: 0, lines: 4, width: 6 }, 1);
    expect(folded?.stats).toMatchObject({ nan: 1, posInf: 1, negInf: 1, finite: 21 });
    expect(folded?.stats).toMatchObject({ min: -9, max: 9, absMax: 9 });
  });

  test('a part of the lines, and of each line', () => {
    const range = { first: 1, lines: 2, width: 3 };
    expect([...(foldLines(record(), range, 9)?.values ?? [])]).toEqual([9, 0, 0, 2, 2, 2]);
    expect([...(mapOfLines(record(), range)?.values ?? [])]).toEqual([9, 0, 0, 2, 2, 2]);
  });
});
