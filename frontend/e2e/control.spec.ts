import { expect, type Page } from '@playwright/test';
import { kSlow, openAfter, type RealRun, test } from './real_run.ts';
import { kSmoke, open } from './support.ts';

test.use({ flags: kSlow });

/** Opens the page while the run trains and nobody holds control. */
async function openTraining(page: Page, run: RealRun): Promise<void> {
  await run.goOn();
  await open(page, run);
  await expect(page.getByTestId('chip')).toHaveText('live');
}

test('pause, step and continue claim a free lease and are sent', async ({ page, run }) => {
  await openTraining(page, run);
  await page.getByTestId('pause').click();
  const paused = await run.pausedAfter();
  await expect(page.getByTestId('chip')).toHaveText(`paused after step ${paused}`);
  await expect(page.getByTestId('message')).toHaveText(`Paused after step ${paused} on 2/2 ranks`);
  await expect(page.getByTestId('holder')).toContainText('you');
  await page.getByTestId('step-once').click();
  await expect(page.getByTestId('message')).toHaveText(`Step ${paused + 1} done on 2/2 ranks`);
  await expect(page.getByTestId('shown-step')).toHaveText(`step ${paused + 1}`);
  await expect(page.getByTestId('chip')).toHaveText(`paused after step ${paused + 1}`);
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveText('live');
  await expect
    .poll(() => run.askedByPage())
    .toEqual(['control.claim', 'control.pause', 'control.step', 'control.continue']);
  expect(await run.asked('control.step')).toEqual([{ count: 1 }]);
});

test('space and the full stop do the same', kSmoke, async ({ page, run }) => {
  await openTraining(page, run);
  await page.locator('body').press(' ');
  const toast = page.getByTestId('toast');
  await expect(toast).toHaveText('Space works only for the holder of control Take control');
  expect(run.holder).toBeNull();
  await page.getByTestId('toast-action').click();
  await expect(page.getByTestId('holder')).toContainText('you');
  await page.locator('body').press(' ');
  const paused = await run.pausedAfter();
  await expect(page.getByTestId('chip')).toHaveAttribute('data-word', 'paused');
  await page.locator('body').press('.');
  await expect(page.getByTestId('message')).toHaveText(`Step ${paused + 1} done on 2/2 ranks`);
  await expect(page.getByTestId('chip')).toHaveText(`paused after step ${paused + 1}`);
  await page.locator('body').press(' ');
  await expect(page.getByTestId('chip')).toHaveText('live');
  await expect
    .poll(() => run.askedByPage())
    .toEqual(['control.claim', 'control.pause', 'control.step', 'control.continue']);
});

test('while another holds control the page only reads, and offers to take over', async ({
  page,
  run,
}) => {
  await run.goOn();
  await run.remote.claim('Ada');
  await open(page, run);
  await expect(page.getByTestId('holder')).toContainText('Ada');
  await expect(page.getByTestId('pause')).toBeDisabled();
  await page.locator('body').press(' ');
  await expect(page.getByTestId('toast')).toContainText('Ada holds control');
  await page.getByTestId('holder').click();
  await page.getByLabel('Your name').fill('Grace');
  await page.screenshot({ path: 'test-results/take-over.png' });
  await page.getByRole('button', { name: 'Take over from Ada' }).click();
  await expect(page.getByTestId('holder')).toContainText('you');
  await expect(page.getByTestId('pause')).toBeEnabled();
  await page.getByTestId('holder').click();
  await page.getByTestId('release').click();
  await expect(page.getByTestId('holder')).toContainText('free');
  await expect.poll(() => run.askedByPage()).toEqual(['control.claim', 'control.release']);
  const [claim] = (await run.trail('control.claim')).slice(-1);
  expect(claim).toMatchObject({ who: 'Grace', detail: { take_over: true } });
});

test('who reloads the page while in control of a paused run keeps control', async ({
  page,
  run,
  context,
}) => {
  await openTraining(page, run);
  await page.getByTestId('pause').click();
  const paused = await run.pausedAfter();
  await expect(page.getByTestId('chip')).toHaveText(`paused after step ${paused}`);
  const watcher = await context.newPage();
  await open(watcher, run);
  const before = run.holder ?? '';
  expect(before).toMatch(/^viewer v\d+$/);
  await expect(watcher.getByTestId('holder')).toHaveText(`Control ${before}`);
  await page.reload();
  await expect(page.getByTestId('holder')).toContainText('you');
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveText('live');
  await watcher.reload();
  const after = run.holder ?? '';
  expect(after).toMatch(/^viewer v\d+$/);
  expect(after).not.toBe(before);
  await expect(watcher.getByTestId('holder')).toHaveText(`Control ${after}`);
  await expect
    .poll(() => run.askedByPage())
    .toEqual(['control.claim', 'control.pause', 'control.claim', 'control.continue']);
});

test('the sheet of control has the focus, and closes by Escape or a click elsewhere', async ({
  page,
  run,
}) => {
  await openAfter(page, run, 1);
  const sheet = page.getByRole('dialog', { name: 'Control of the run' });
  await page.getByTestId('holder').press('Enter');
  await expect(sheet).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(sheet).toHaveCount(0);
  await expect(page.getByTestId('holder')).toBeFocused();
  await page.getByTestId('holder').click();
  await sheet.getByRole('textbox').click();
  await expect(sheet).toBeVisible();
  await page.mouse.click(400, 500);
  await expect(sheet).toHaveCount(0);
});

test('the question mark shows the shortcuts', async ({ page, run }) => {
  await openAfter(page, run, 1);
  await page.locator('body').press('?');
  await expect(page.getByRole('dialog', { name: 'Keyboard' })).toBeVisible();
  await page.screenshot({ path: 'test-results/help.png' });
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog', { name: 'Keyboard' })).toBeHidden();
});
