import { expect, type Page } from '@playwright/test';
import { kLayers, kSequence } from './fake_data.ts';
import type { FakeHub } from './fake_hub.ts';
import { idle } from './support.ts';

// What the tests of the Plan view share.

export const kHeader = 128;
/** HiddenStates in 64 tiles of f32, MLP1 in 32, token ids and positions in i32. */
export const kHiddenBytes = kLayers * (kHeader + kSequence * 64 * 4);
export const kMlpBytes = kLayers * (kHeader + kSequence * 32 * 4);
export const kTokenBytes = kHeader + 2 * kSequence * 4;

export function asShown(bytes: number): string {
  const kib = bytes / 1024;
  return kib < 1024
    ? `${kib.toFixed(kib >= 100 ? 0 : 1)}\u00a0KiB`
    : `${(kib / 1024).toFixed(1)}\u00a0MiB`;
}

/** The Plan view by its address, with what else the address is to hold. */
export async function visit(page: Page, hub: FakeHub, query = ''): Promise<void> {
  await page.goto(`http://127.0.0.1:${hub.port}/?tab=plan${query}#token=${hub.token}`);
  await expect(page.getByTestId('entry-bytes-1')).toBeVisible();
  await idle(page);
}
