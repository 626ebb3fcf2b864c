import { expect, type Page } from '@playwright/test';
import type { FakeHub } from './fake_hub.ts';
import { idle } from './support.ts';

// What the tests of the Interventions view share.

export const kSteer = [
  'alpha = param(4.0, min=0.0, max=20.0)',
  'h = layers[2].output',
  'layers[2].output = h + alpha * vector("evil")[2]',
  'save(h.norm(dim=-1).mean(), "late_norm")',
].join('\n');

export async function visit(page: Page, hub: FakeHub, query = ''): Promise<void> {
  await page.goto(`http://127.0.0.1:${hub.port}/?tab=interventions${query}#token=${hub.token}`);
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

export function asked(hub: FakeHub, method: string): readonly Readonly<Record<string, unknown>>[] {
  return hub.requests.filter((each) => each.method === method).map(({ params }) => params);
}

/** As the page writes large numbers. */
export function grouped(number: number): string {
  return number.toLocaleString('en-US').replace(/,/g, '\u202f');
}
