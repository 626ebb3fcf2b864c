import { expect, type Page, test } from '@playwright/test';
import { smallRun } from './live_support.ts';
import { idle, kNightly } from './support.ts';

// A real run that waits (--tensor-tracer-wait): a plan before step 1, Start, the keys of the holder of control, the
// undo of a pause, the title of the tab, the map of the model. TT_PROGRAM: the program that trains.

const kPatience = { timeout: 60_000 };

const kFiles = { 'text.txt': 'A run waits until its reader is ready. '.repeat(400) };
const run = smallRun(kFiles, '--run-name', 'waiting', '--tensor-tracer-wait');

async function newestStep(page: Page): Promise<number> {
  return (await page.evaluate(() => window.__tt?.app.newestStep)) ?? 0;
}

/** No step is done for a while. */
async function expectStill(page: Page): Promise<number> {
  const step = await newestStep(page);
  await page.waitForTimeout(700);
  expect(await newestStep(page)).toBe(step);
  return step;
}

async function planBeforeStart(page: Page): Promise<void> {
  await page.getByTestId('tab-plan').click();
  await page.getByTestId('plan-presets').getByText('Statistics of everything').click();
  await expect(page.getByTestId('plan-bytes')).not.toHaveText('–', kPatience);
  await page.getByTestId('apply').click();
  await expect(page.getByTestId('plan-in-force')).toContainText('plan 2', kPatience);
  expect(await expectStill(page)).toBe(0);
}

/** The first step that the curves of the statistics have. */
async function firstStepOfStatistics(page: Page): Promise<number | undefined> {
  await page.getByTestId('tab-tensors').click();
  await page.getByTestId('point').selectOption({ label: 'HiddenStates · stats' });
  await expect(page.getByTestId('stats-table')).toBeVisible(kPatience);
  await idle(page);
  return page.evaluate(() => window.__tt?.app.frame?.history?.steps[0]);
}

test('a run waits for its plan, and its keys obey the holder', kNightly, async ({ page }) => {
  test.setTimeout(180_000);
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(run.url);
  const chip = page.getByTestId('chip');
  await expect(chip).toHaveText('ready to start', kPatience);
  await expect(page).toHaveTitle(/^◌ waiting$/);
  await planBeforeStart(page);
  await page.getByTestId('start').first().click();
  await expect(chip).toHaveText(/live|lagging/, kPatience);
  await expect(page).toHaveTitle(/^▶ \d[\d\s]* · [\d.]+ · waiting$/, kPatience);
  await expect.poll(() => newestStep(page), kPatience).toBeGreaterThan(12);

  const toast = page.getByTestId('toast').filter({ hasText: 'Paused after step' });
  await page.locator('body').press(' ');
  await expect(toast).toBeVisible(kPatience);
  await expect(page).toHaveTitle(/^⏸ /);
  const paused = await expectStill(page);
  await toast.getByRole('button', { name: 'Undo' }).click();
  await expect(chip).toHaveText(/live|lagging/, kPatience);
  await expect.poll(() => newestStep(page), kPatience).toBeGreaterThan(paused + 2);
  await page.locator('body').press(' ');
  await expect(page).toHaveTitle(/^⏸ /, kPatience);
  const held = await expectStill(page);
  await page.locator('body').press('.');
  await expect(page.getByTestId('message')).toContainText(`Step ${held + 1} done`, kPatience);
  expect(await expectStill(page)).toBe(held + 1);
  // The preset traces every tenth step.
  expect(await firstStepOfStatistics(page)).toBe(10);

  await page.getByTestId('tab-model').click();
  const boxes = page.getByTestId('block');
  await expect(boxes).toHaveCount(4);
  await expect(boxes.nth(2)).toHaveAccessibleName(/^Layer 2, RMS [\d.]+ of HiddenStates, step/);
  await boxes.nth(2).click();
  await expect(page.getByTestId('tab-tensors')).toHaveAttribute('aria-current', 'page');
  await expect(page.getByTestId('layer')).toHaveValue('2');
});

test('keys of a viewer without control change nothing', kNightly, async ({ page, context }) => {
  await page.goto(run.url);
  await expect(page.getByTestId('chip')).toHaveText(/paused after step/, kPatience);
  await page.getByTestId('holder').click();
  await page.getByTestId('claim').click();
  await expect(page.getByTestId('holder')).toContainText('you', kPatience);
  const other = await context.newPage();
  await other.goto(run.url);
  await expect(other.getByTestId('chip')).toHaveText(/paused after step/, kPatience);
  for (const key of [' ', '.']) await other.locator('body').press(key);
  const toasts = other.getByTestId('toast').filter({ hasText: 'holds control' });
  await expect(toasts.first()).toBeVisible(kPatience);
  await expectStill(other);
  await expect(page.getByTestId('chip')).toHaveText(/paused after step/);
});
