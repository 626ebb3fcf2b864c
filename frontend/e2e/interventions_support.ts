import { expect, type Page } from '@playwright/test';
import type { RealRun, TrailLine } from './real_run.ts';
import { idle } from './support.ts';

// What the tests of the Interventions view share.

export const kSteer = [
  'alpha = param(4.0, min=0.0, max=20.0)',
  'h = layers[2].output',
  'layers[2].output = h + alpha * vector("evil")[2]',
  'save(h.norm(dim=-1).mean(), "late_norm")',
].join('\n');

export async function visit(page: Page, { url }: { readonly url: string }): Promise<void> {
  const address = new URL(url);
  address.searchParams.set('tab', 'interventions');
  await page.goto(address.href);
  await expect(page.getByTestId('program-text')).toBeVisible();
  await idle(page);
}

export async function type(page: Page, text: string, name = ''): Promise<void> {
  await page.getByLabel('Name of the program').fill(name);
  await page.getByTestId('program-text').fill(text);
}

/** The text in the editor. */
export function textOf(page: Page): Promise<string> {
  return page
    .getByTestId('program-text')
    .locator('.cm-line')
    .evaluateAll((lines) => lines.map((line) => line.textContent ?? '').join('\n'));
}

/** A program that the trainer has found right, and that may be previewed and applied. */
export async function ready(page: Page, text = kSteer, name = 'steer'): Promise<void> {
  await type(page, text, name);
  await expect(page.getByTestId('apply-program')).toBeEnabled();
  await expect(page.getByTestId('program-verdict')).toHaveText(/^The program is fine/);
}

export async function apply(page: Page, text = kSteer, name = 'steer'): Promise<void> {
  await ready(page, text, name);
  await page.getByTestId('apply-program').click();
  await expect(page.getByTestId(`program-${name}`)).toBeVisible();
}

/** Asks for a preview, and waits for its answer. */
export async function preview(page: Page): Promise<void> {
  await page.getByTestId('preview').click();
  await expect(page.getByTestId('preview')).toHaveText('Preview');
  await expect(page.getByTestId('preview-state')).toHaveText('Not applied yet.');
  await idle(page);
}

/** The n-th line of a kind in the audit trail. */
export async function lineOf(run: RealRun, kind: string, number = 1): Promise<TrailLine> {
  await expect.poll(async () => (await run.trail(kind)).length).toBeGreaterThanOrEqual(number);
  return (await run.trail(kind))[number - 1];
}

/** What the trainer answers to a preview that the page does not ask for. */
export async function recordsOf(
  run: RealRun,
  params: Readonly<Record<string, unknown>>,
): Promise<{ readonly off: Records; readonly on: Records }> {
  const answer = await run.remote.control('intervention.preview', params);
  const { off, on } = answer.records as { readonly off: string; readonly on: string };
  return { off: read(off), on: read(on) };
}

/** The numbers of float32 records, by layer. */
type Records = ReadonlyMap<number, Float32Array>;

const kHeader = 128;

/** As docs/protocol.md has it under "Binary messages". */
function read(text: string): Records {
  const bytes = Buffer.from(text, 'base64');
  const records = new Map<number, Float32Array>();
  for (let at = 0; at < bytes.length;) {
    const size = Number(bytes.readBigUInt64LE(at + 88));
    const payload = Uint8Array.from(bytes.subarray(at + kHeader, at + kHeader + size));
    records.set(bytes.readUInt16LE(at + 54), new Float32Array(payload.buffer));
    at += kHeader + 8 * Math.ceil(size / 8);
  }
  return records;
}

/** As the page writes large numbers. */
export function grouped(number: number): string {
  return number.toLocaleString('en-US').replace(/,/g, '\u202f');
}
