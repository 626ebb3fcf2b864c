import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from '@playwright/test';
import { kPython } from './support.ts';

export interface NpzArray {
  readonly dtype: string;
  readonly shape: readonly number[];
  /** The bytes of the numbers, row by row. */
  readonly hex: string;
}
type Npz = Readonly<Record<string, NpzArray>>;

const kReader = `
import json, sys, numpy
out = {}
with numpy.load(sys.argv[1], allow_pickle=False) as file:
    for name in file.files:
        array = file[name]
        hex = '' if name == 'facts' else array.tobytes().hex()
        out[name] = {'dtype': str(array.dtype), 'shape': array.shape, 'hex': hex}
    facts = json.loads(file['facts'].item())
print(json.dumps({'arrays': out, 'facts': facts}))
`;

/** Saves the view as a file, and tells where it lies. */
export async function save(page: Page, format: 'png' | 'csv' | 'npz'): Promise<string> {
  await page.getByTestId('export').click();
  const download = page.waitForEvent('download');
  await page.getByTestId(`export-${format}`).click();
  const file = await download;
  const path = join(mkdtempSync(join(tmpdir(), 'tt-export-')), file.suggestedFilename());
  await file.saveAs(path);
  return path;
}

/** What numpy reads from a file. */
export function read(path: string): {
  readonly arrays: Npz;
  readonly facts: Readonly<Record<string, unknown>>;
} {
  const options = { encoding: 'utf8', maxBuffer: 64 * 2 ** 20 } as const;
  const text = execFileSync(kPython, ['-c', kReader, path], options);
  return JSON.parse(text) as ReturnType<typeof read>;
}

/** The bytes of an axis, as `NpzArray` has them. */
export function hexOfAxis(labels: readonly number[]): string {
  return hexOf(BigInt64Array.from(labels, BigInt));
}

/** The bytes of numbers, as `NpzArray` has them. */
export function hexOf(numbers: Float32Array | Float64Array | Int32Array | BigInt64Array): string {
  return Buffer.from(numbers.buffer).toString('hex');
}
