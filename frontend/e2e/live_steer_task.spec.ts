import { expect, type Page, test } from '@playwright/test';
import { textOf } from './interventions_support.ts';
import { idle } from './support.ts';

// Steer, preview, apply, move, revert: on a run with the default plan, by a real hub and trainer.

const kPatience = { timeout: 60_000 };
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
