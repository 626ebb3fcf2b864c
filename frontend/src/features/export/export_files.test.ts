import { unzipSync } from 'fflate';
import { expect, test } from 'vitest';
import type { Exported } from '../../core/registry/files';
import { factsOfBoth, stepsText } from '../../ui/file_facts';
import { csvOf, digitsOf, npzOf } from './export_files';

const kExported: Exported = {
  name: 'x',
  title: 'X',
  facts: { run: 'demo\nrun', step: 3 },
  arrays: [
    {
      name: 'values',
      text: 'two by two',
      axes: [
        { name: 'layer', labels: [1, 2] },
        { name: 'side', labels: ['a', 'b'] },
      ],
      shape: [2, 2],
      data: Float32Array.from([0.1, Number.NaN, Infinity, -0]),
    },
  ],
};

test('the fewest digits that give the same number back', () => {
  expect(digitsOf(Math.fround(0.1), true)).toBe('0.1');
  expect(digitsOf(0.1, false)).toBe('0.1');
  expect([Number.NaN, Infinity, -Infinity, -0].map((each) => digitsOf(each, true))).toEqual([
    ...['nan', 'inf', '-inf', '-0'],
  ]);
  let seed = 1;
  for (let i = 0; i < 5000; i++) {
    seed = (seed * 1103515245 + 12345) >>> 0;
    const value = new Float32Array(Uint32Array.of(seed).buffer)[0];
    if (Number.isFinite(value)) expect(Math.fround(Number(digitsOf(value, true)))).toBe(value);
  }
});

test('the steps are told as they are in the file', () => {
  expect(stepsText([5, 6, 9], 1)).toBe('5 to 9');
  expect(stepsText([5, 8, 16], 8)).toBe('5 to 16, one of every 8');
  expect(stepsText([], 1)).toBe('none');
});

test('a table under its name, below facts of one line each', () => {
  expect(csvOf(kExported).join('').split('\n')).toEqual([
    '# run: demo run',
    '# step: 3',
    '',
    '# values: two by two; float32',
    'layer\\side,a,b',
    '1,0.1,nan',
    '2,inf,-0',
    '',
  ]);
});

test('the same numbers make the same file', () => {
  const bytes = npzOf(kExported);
  expect(npzOf(kExported)).toEqual(bytes);
  const files = unzipSync(bytes);
  expect(Object.keys(files)).toEqual(['values.npy', 'axis_layer.npy', 'facts.npy']);
  const { length } = files['values.npy'];
  expect(files['values.npy'].subarray(length - 16)).toEqual(
    new Uint8Array(kExported.arrays[0].data.buffer),
  );
  expect((length - 16) % 64).toBe(0);
});

test('an axis holds steps beyond int32', () => {
  const step = 2 ** 31 + 5;
  const axes = [{ name: 'step', labels: [step] }];
  const array = { name: 'x', text: '', axes, shape: [1], data: Float64Array.of(1) };
  const { 'axis_step.npy': file } = unzipSync(npzOf({ ...kExported, arrays: [array] }));
  const header = new TextDecoder().decode(file);
  expect(header).toContain("'<i8'");
  expect(new DataView(file.buffer, file.byteOffset).getBigInt64(file.length - 8, true)).toBe(
    BigInt(step),
  );
});

test('what differs between A and B is told of both', () => {
  const a = { point: 'MLP1', dtype: 'f32', plan: 1 };
  expect(factsOfBoth(a, { ...a, dtype: 'u8', head: 2 })).toEqual({
    ...{ point: 'MLP1', dtype: 'A: f32, B: u8', plan: 1 },
    head: 'A: none, B: 2',
  });
});
