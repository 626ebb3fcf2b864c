import { expect, type Page, test } from '@playwright/test';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { idle, kNightly } from './support.ts';

// docs/first_session.md, pressed button by button against a real run (playwright.live.config.ts).
// TT_PICTURES=DIR keeps the pictures, of which the docs show some.

const kDoc = readFileSync(
  fileURLToPath(new URL('../../docs/first_session.md', import.meta.url)),
  'utf8',
).replace(/\s+/g, ' ');
const kPatience = { timeout: 60_000 };

/** The words in bold, in the order of the text. */
const kBold = [...kDoc.matchAll(/\*\*(.+?)\*\*/g)].map((match) => match[1]);

class Reader {
  private at = 0;

  constructor(private readonly page: Page) {}

  /** Presses what the text names next. */
  async press(name: string): Promise<void> {
    expect(kBold[this.at], 'the next bold word of the text').toBe(name);
    this.at += 1;
    const button = this.page.getByRole('button', { name, exact: true });
    const preset = this.page.getByTestId('plan-presets').getByText(name, { exact: true });
    await button.or(preset).first().click();
  }

  readAll(): void {
    expect(this.at).toBe(kBold.length);
  }
}

async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env.TT_PICTURES ?? 'test-results/session';
  await page.mouse.move(0, 0);
  await idle(page);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await idle(page);
    await page.screenshot({ path: `${folder}/${name}-${colorScheme}.png` });
  }
}

async function waitForSteps(page: Page, count: number): Promise<void> {
  const step = async (): Promise<number> =>
    Number((await page.getByTestId('step').innerText()).split('/')[0].replace(/\D/g, ''));
  const from = await step();
  await expect.poll(step, kPatience).toBeGreaterThanOrEqual(from + count);
}

/** A prompt, while a program is in force. */
async function ask(page: Page, reader: Reader): Promise<void> {
  await reader.press('Prompts');
  await page.getByTestId('prompt').fill('def fibonacci(n):');
  await reader.press('Run at the next step');
  await expect(page.getByTestId('prompt-facts')).toContainText('17 tokens', kPatience);
  await page.getByTestId('prompt-point').selectOption({ label: 'LogitLens' });
  await expect(page.getByTestId('lens-grid')).toBeVisible(kPatience);
  await reader.press('on');
  await expect(page.getByTestId('prompt-shown-on')).toBeVisible();
  await picture(page, 'prompts');
  await reader.press('on − off');
  await expect(page.getByTestId('compare-lens-difference')).toBeVisible(kPatience);
  await reader.press('off');
  await page.getByTestId('prompt-name').fill('fibonacci');
  await reader.press('Keep');
  await expect(page.getByTestId('prompt-notice')).toContainText('fibonacci is kept', kPatience);
  await page.getByRole('button', { name: 'Remove the prompts fibonacci' }).click();
  await expect(page.getByTestId('prompt-notice')).toContainText('is removed', kPatience);
}

async function seeOverview(page: Page, reader: Reader): Promise<void> {
  await reader.press('Overview');
  await waitForSteps(page, 5);
  await picture(page, 'overview');
  await reader.press('Model');
  await expect(page.getByTestId('block')).not.toHaveCount(0);
  await picture(page, 'model');
}

test('the first session works word for word', kNightly, async ({ page }) => {
  test.setTimeout(300_000);
  await page.setViewportSize({ width: 1440, height: 900 });
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  const reader = new Reader(page);
  await page.goto(process.env.TT_PAGE_URL ?? '');
  await expect(page.getByTestId('tile-map')).toBeVisible(kPatience);

  const entries = await page.evaluate(() => window.__tt?.app.plan?.entries ?? []);
  await seeOverview(page, reader);

  await reader.press('Tensors');
  await expect(page.getByTestId('tile-map')).toBeVisible();
  await picture(page, 'tensors');
  for (const scale of ['90 %', 'full']) await reader.press(scale);
  await reader.press('all layers');
  await expect(page.getByTestId('layer-maps')).toBeVisible();
  await picture(page, 'all-layers');
  await reader.press('over steps');
  await expect(page.getByTestId('over-map')).toBeVisible();
  await picture(page, 'over-steps');
  await reader.press('one layer');
  await expect(page.getByTestId('tile-map')).toBeVisible();
  await reader.press('Hold view');
  await expect(page.getByTestId('held')).toHaveText(/[1-9]\d* new\s+steps? since/, kPatience);
  await reader.press('View held');

  await reader.press('Pause');
  const chip = page.getByTestId('chip');
  await expect(chip).toHaveAttribute('data-word', 'paused', kPatience);
  await reader.press('Step');
  await expect(page.getByTestId('message')).toContainText(/Step \d+ done on/, kPatience);
  await reader.press('Continue');
  await expect(chip).toHaveText(/live|lagging/, kPatience);

  await reader.press('Compare');
  await page.getByRole('slider', { name: 'Step of B' }).press('Home');
  await expect(page.getByTestId('compare-note')).toBeVisible(kPatience);
  await picture(page, 'compare');

  await reader.press('Plan');
  await reader.press('Statistics of everything');
  await expect(page.getByTestId('plan-bytes')).not.toHaveText('–', kPatience);
  await picture(page, 'plan');
  await reader.press('Apply');
  await expect(page.getByTestId('plan-in-force')).toContainText(/on 2\/2 ranks/, kPatience);
  await reader.press('Tensors');
  await page.getByTestId('point').selectOption({ label: 'HiddenStates · stats' });
  await expect(page.getByTestId('stats-table')).toBeVisible(kPatience);
  await waitForSteps(page, 25);
  await picture(page, 'statistics');
  await reader.press('growth');
  await expect(page.getByTestId('since')).toBeVisible();
  await reader.press('map');
  await expect(page.getByTestId('stat-map')).toBeVisible();

  await reader.press('Text');
  await reader.press('Add Logits to the plan');
  await expect(page.getByTestId('tokens')).toBeVisible(kPatience);
  await waitForSteps(page, 3);
  await picture(page, 'text');
  await reader.press('next token');

  await reader.press('Plan');
  await reader.press('Attention of one layer');
  await reader.press('Apply');
  await expect(page.getByTestId('plan-outcome')).toHaveText(/No changes/, kPatience);
  await reader.press('Tensors');
  await page.getByTestId('point').selectOption({ label: 'RawAttentionScore' });
  await expect(page.getByTestId('head-maps')).toBeVisible(kPatience);
  await picture(page, 'attention');
  for (const scale of ['√', 'full', '99 %', '90 %']) await reader.press(scale);

  await reader.press('Interventions');
  await page.getByLabel('Ready-made programs').selectOption('scale');
  await reader.press('Fill in');
  await expect(page.getByTestId('program-verdict')).toHaveText(/^The program is fine/, kPatience);
  await reader.press('Preview');
  await expect(page.getByTestId('before-after')).toBeVisible(kPatience);
  await picture(page, 'interventions');
  await reader.press('Apply');
  const force = page.getByTestId('interventions-in-force');
  await expect(force).toContainText(/applied at step .* on 2\/2 ranks, .* positions/, kPatience);

  await ask(page, reader);
  await reader.press('Interventions');
  await reader.press('Revert all');
  await expect(page.getByTestId('program-scale')).toHaveCount(0, kPatience);

  await reader.press('Export');
  await expect(page.getByTestId('export-npz')).toBeVisible();

  reader.readAll();
  await page.evaluate((before) => window.__tt?.app.control.setPlan({ entries: before }), entries);
  expect(complaints).toEqual([]);
});
