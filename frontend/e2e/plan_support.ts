import { expect, type Page } from '@playwright/test';
import { type Entry, kLayers, kTokens, type RealRun } from './real_run.ts';
import { idle } from './support.ts';

// What the tests of the Plan view share.

export const kHeader = 128;
/** HiddenStates in 8 tiles of f32, MLP1 in 4, token ids and positions in i32. */
export const kHiddenBytes = tileBytes(8);
export const kMlpBytes = tileBytes(4);
export const kTokenBytes = kHeader + 2 * kTokens * 4;

/** The bytes of a step of an entry with so many tiles of f32: a record for each layer. */
export function tileBytes(tiles: number): number {
  return kLayers * (kHeader + kTokens * tiles * 4);
}

export function asShown(bytes: number): string {
  if (bytes < 1024) return `${bytes.toFixed(0)}\u00a0B`;
  const kib = bytes / 1024;
  return kib < 1024
    ? `${kib.toFixed(kib >= 100 ? 0 : 1)}\u00a0KiB`
    : `${(kib / 1024).toFixed(1)}\u00a0MiB`;
}

/** The Plan view by its address, with what else the address is to hold. */
export async function visit(page: Page, run: RealRun, query = ''): Promise<void> {
  await page.goto(run.at(`tab=plan${query}`));
  await expect(page.getByTestId('entry-bytes-1')).toBeVisible();
  await idle(page);
}

/** The entries of the n-th plan that somebody has set, as they were asked for. */
export async function entriesAsked(run: RealRun, number = 1): Promise<readonly Entry[]> {
  await expect.poll(async () => (await run.asked('plan.set')).length).toBe(number);
  const { plan } = (await run.asked('plan.set'))[number - 1];
  return (plan as { readonly entries: readonly Entry[] }).entries;
}

/** The numbers of a recorded record in f32, once the recording has it. The query names one record. */
export async function recordedNumbers(run: RealRun, query: string): Promise<Float32Array> {
  let bytes = new ArrayBuffer(0);
  await expect(async () => {
    const answer = await fetch(`${run.url}history/records?${query}`);
    expect(answer.headers.get('TT-Records')).toBe('1');
    bytes = await answer.arrayBuffer();
  }).toPass();
  const size = Number(new DataView(bytes).getBigUint64(88, true));
  return new Float32Array(bytes, kHeader, size / 4);
}
