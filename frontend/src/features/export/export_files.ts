import { zipSync } from 'fflate';
import { npyOf, npyOfIntegers, npyOfText } from '../../base/npy';
import type { ExportArray, Exported } from '../../core/registry/files';

// A constant time: two files of the same numbers have the same bytes.
const kTime = new Date(1980, 0, 1);

/** A `.npz` of the exact bits of the arrays, the axes that consist of numbers, and `facts` as JSON. */
export function npzOf({ facts, arrays }: Exported): Uint8Array<ArrayBuffer> {
  const files: Record<string, Uint8Array> = {};
  for (const array of arrays) {
    files[`${array.name}.npy`] = npyOf(array);
    for (const { name, labels } of array.axes) {
      const numbers = labels.filter((label) => typeof label === 'number');
      if (numbers.length < labels.length) continue;
      files[`axis_${name}.npy`] = npyOfIntegers(numbers);
    }
  }
  const axes = Object.fromEntries(
    arrays.map((array) => [array.name, array.axes.map(({ name }) => name)]),
  );
  const texts = Object.fromEntries(arrays.map(({ name, text }) => [name, text]));
  files['facts.npy'] = npyOfText(JSON.stringify({ ...facts, axes, texts }));
  return zipSync(files, { mtime: kTime, level: 6 });
}

/**
 * A `.csv` in chunks, because it can be too long for one string: the facts as comments, then one
 * table for each array, below the array's name.
 */
export function csvOf({ facts, arrays }: Exported): readonly string[] {
  const head = Object.entries(facts).map(([name, value]) => `# ${name}: ${oneLine(value)}\n`);
  const tables = arrays.map((array) => {
    const title = `# ${array.name}: ${array.text}; ${dtypeOf(array)}`;
    return `${['', title, ...tableLines(array)].join('\n')}\n`;
  });
  return [...head, ...tables];
}

function tableLines({ axes, shape, data }: ExportArray): string[] {
  const [rows, cols] = axes;
  const width = cols === undefined ? 1 : shape[1];
  const corner = cols === undefined ? rows.name : `${rows.name}\\${cols.name}`;
  const head = [corner, ...(cols === undefined ? ['value'] : cols.labels)].join(',');
  const single = data instanceof Float32Array;
  const lines = rows.labels.map((label, row) => {
    const cells = Array.from({ length: width }, (_, col) =>
      digitsOf(data[row * width + col], single),
    );
    return [label, ...cells].join(',');
  });
  return [head, ...lines];
}

/** The fewest digits that give back the same number. */
export function digitsOf(value: number, single: boolean): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  if (Object.is(value, -0)) return '-0';
  if (!single) return String(value);
  for (let digits = 6; digits < 9; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return String(Number(text));
  }
  return String(Number(value.toPrecision(9)));
}

function dtypeOf({ data }: ExportArray): string {
  if (data instanceof Float32Array) return 'float32';
  if (data instanceof Float64Array) return 'float64';
  return data instanceof Int32Array ? 'int32' : 'uint8';
}

function oneLine(value: string | number): string {
  return String(value).replace(/[\r\n]+/g, ' ');
}
