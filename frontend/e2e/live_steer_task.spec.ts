import { expect, type Page, test } from '@playwright/test';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { textOf } from './interventions_support.ts';
import { idle, kNightly } from './support.ts';

// Steer, preview, apply, move, revert: on a run with the default plan, by a real hub and trainer.

const kPatience = { timeout: 60_000 };
/** Of the first prompt set that scripts/live_page.py gives the run, in bytes. */
const kFirstPrompt = Buffer.from(
  readFileSync(fileURLToPath(new URL('../../examples/prompts/code.txt', import.meta.url)), 'utf8')
    .split('\n')
    .find((line) => line.trim() !== '') ?? '',
);

/** How often a button of the mouse was pressed. */
function presses(page: Page): Promise<number> {
  return page.evaluate(() => Number(document.documentElement.dataset.presses ?? 0));
}

async function countPresses(page: Page): Promise<void> {
  await page.addInitScript(() => {
    let count = 0;
    window.addEventListener(
      'pointerdown',
      () => (document.documentElement.dataset.presses = String(++count)),
      true,
    );
  });
}

async function picture(page: Page, name: string): Promise<void> {
  await page.mouse.move(0, 0);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await idle(page);
    await page.screenshot({ path: `test-results/steer/${name}-${colorScheme}.png` });
  }
}

/** Probabilities in the table of predictions, in percent: without and with the program. */
async function shares(page: Page): Promise<readonly (readonly [number, number])[]> {
  const rows = await page.getByTestId('preview-outcomes').locator('tbody tr').all();
  return Promise.all(
    rows.map(async (row) => {
      const [off, on] = await row.getByRole('cell').allInnerTexts();
      return [parseFloat(off.replace('≤', '')), parseFloat(on.replace('≤', ''))] as const;
    }),
  );
}

test('steer, preview, apply, move, revert: six clicks', async ({ page }) => {
  test.setTimeout(300_000);
  await countPresses(page);
  await page.setViewportSize({ width: 1440, height: 900 });
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  await page.goto(process.env.TT_PAGE_URL ?? '');
  await expect(page.getByTestId('tile-map')).toBeVisible(kPatience);
  await page.getByTestId('tab-interventions').click();
  await picture(page, 'empty');
  await page.getByTestId('first-steer').click();
  expect(await textOf(page)).toContain('layers[2].output = h + alpha * vector("direction")[2]');
  const preview = page.getByTestId('preview');
  await expect(preview).toBeEnabled(kPatience);
  await preview.click();
  await expect(page.getByTestId('preview-result')).toBeVisible(kPatience);
  await expect(page.getByTestId('preview-divergence')).toHaveText(/KL \S*\d/);
  await picture(page, 'previewed');
  await page.getByTestId('apply-program').click();
  const force = page.getByTestId('interventions-in-force');
  await expect(force).toContainText(/applied at step .* on 2\/2 ranks, .* positions/, kPatience);
  await expect(page.getByTestId('preview-state')).toContainText('Applied: in force from step');
  await expect(page.getByTestId('preview-result')).toBeVisible();
  const slider = page.getByRole('slider', { name: 'alpha of steer' });
  const { width = 0 } = (await slider.boundingBox()) ?? {};
  await slider.click({ position: { x: width * 0.8, y: 8 } });
  await expect(page.getByTestId('dial-step-alpha')).toHaveText(/^from step \d+$/, kPatience);
  expect(Number(await page.getByTestId('dial-alpha').inputValue())).toBeGreaterThan(4);
  await picture(page, 'applied');
  await page.getByRole('button', { name: 'Revert steer' }).click();
  await expect(page.getByTestId('program-steer')).toHaveCount(0, kPatience);
  expect(await presses(page)).toBeLessThanOrEqual(6);
  expect(complaints).toEqual([]);
});

test(
  'a preview says what the model would say, of the batch and of a prompt',
  kNightly,
  async ({ page }) => {
    test.setTimeout(300_000);
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.goto(process.env.TT_PAGE_URL ?? '');
    await expect(page.getByTestId('tile-map')).toBeVisible(kPatience);
    await page.getByTestId('tab-interventions').click();
    await page.getByTestId('first-steer').click();
    const preview = page.getByTestId('preview');
    await expect(preview).toBeEnabled(kPatience);
    await preview.click();
    await expect(page.getByTestId('preview-says')).toBeVisible(kPatience);
    // The vocabulary of bytes travels whole: what is shown is exact.
    await expect(page.getByTestId('preview-exactness')).toContainText('KL are exact');
    const texts = page.getByTestId('preview-text').locator('option');
    await expect(texts.first()).toHaveText('evaluation batch, row 0');
    await expect(texts.nth(1)).toContainText('code: ');
    const batch = await shares(page);
    expect(batch.length).toBe(10);
    expect(batch.some(([off, on]) => off !== on)).toBe(true);
    await page.getByTestId('preview-text').selectOption('1');
    const tokens = page.getByTestId('preview-tokens').getByRole('option');
    await expect(tokens).toHaveCount(kFirstPrompt.length);
    // A prompt is shown at its end, where the model would go on.
    await expect(tokens.last()).toHaveAttribute('aria-selected', 'true');
    await expect(page.getByTestId('preview-divergence')).not.toHaveText('KL 0 nats per token');
    for (const side of [0, 1] as const) {
      const sum = (await shares(page)).reduce((total, share) => total + share[side], 0);
      expect(sum).toBeGreaterThan(5);
      expect(sum).toBeLessThan(101);
    }
    await tokens.first().click();
    await expect(page.getByTestId('preview-outcomes')).toContainText('position 0');
    // Without strength nothing changes, to the last bit.
    await page.getByLabel('Value of alpha').fill('0');
    await expect(page.getByTestId('preview-state')).toContainText('preview again');
    await preview.click();
    await expect(page.getByTestId('preview-divergence')).toHaveText(
      'KL 0 nats per token',
      kPatience,
    );
    await page.getByLabel('Value of alpha').fill('2');
    await preview.click();
    await expect(page.getByTestId('preview-state')).toHaveText('Not applied yet.', kPatience);
    // 200 %: one column.
    await page.setViewportSize({ width: 720, height: 450 });
    await picture(page, 'zoomed');
    await page.getByTestId('preview-says').scrollIntoViewIfNeeded();
    await picture(page, 'zoomed-preview');
  },
);
