import { expect } from '@playwright/test';
import type { FakeHub } from './fake_hub.ts';
import { kSmoke, open, test } from './support.ts';

/** Requests that the page makes by itself. */
const kOfThePage: ReadonlySet<string> = new Set(['ping', 'alarms.list']);

function methods(hub: FakeHub): string[] {
  return hub.requests.map(({ method }) => method).filter((method) => !kOfThePage.has(method));
}

test('pause, step and continue claim a free lease and are sent', async ({ page, hub }) => {
  await open(page, hub);
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveText('paused after step 120');
  await expect(page.getByTestId('message')).toHaveText('Paused after step 120 on 2/2 ranks');
  await expect(page.getByTestId('holder')).toContainText('you');
  await page.getByTestId('step-once').click();
  await expect(page.getByTestId('message')).toHaveText('Step 121 done on 2/2 ranks');
  await expect(page.getByTestId('shown-step')).toHaveText('step 121');
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveText('live');
  expect(methods(hub)).toEqual([
    'hello',
    'control.claim',
    'control.pause',
    'control.step',
    'control.continue',
  ]);
  expect(hub.requests.find(({ method }) => method === 'control.step')?.params).toEqual({
    count: 1,
  });
});

test('space and the full stop do the same', kSmoke, async ({ page, hub }) => {
  await open(page, hub);
  await page.locator('body').press(' ');
  const toast = page.getByTestId('toast');
  await expect(toast).toHaveText('Space works only for the holder of control Take control');
  expect(methods(hub)).toEqual(['hello']);
  await page.getByTestId('toast-action').click();
  await expect(page.getByTestId('holder')).toContainText('you');
  await page.locator('body').press(' ');
  await expect(page.getByTestId('chip')).toHaveAttribute('data-word', 'paused');
  await page.locator('body').press('.');
  await expect(page.getByTestId('message')).toHaveText('Step 121 done on 2/2 ranks');
  await page.locator('body').press(' ');
  await expect(page.getByTestId('chip')).toHaveText('live');
});

test('while another holds control the page only reads, and offers to take over', async ({
  page,
  hub,
}) => {
  hub.setHolder({ session: 'v99', name: 'Ada' });
  await open(page, hub);
  await expect(page.getByTestId('holder')).toContainText('Ada');
  await expect(page.getByTestId('pause')).toBeDisabled();
  await page.locator('body').press(' ');
  await expect(page.getByTestId('toast')).toContainText('Ada holds control');
  expect(methods(hub)).toEqual(['hello']);
  await page.getByTestId('holder').click();
  await page.getByLabel('Your name').fill('Grace');
  await page.screenshot({ path: 'test-results/take-over.png' });
  await page.getByRole('button', { name: 'Take over from Ada' }).click();
  await expect(page.getByTestId('holder')).toContainText('you');
  await expect(page.getByTestId('pause')).toBeEnabled();
  expect(hub.requests.at(-1)?.params).toEqual({ name: 'Grace', take_over: true });
  await page.getByTestId('holder').click();
  await page.getByTestId('release').click();
  await expect(page.getByTestId('holder')).toContainText('free');
});

test('who reloads the page while in control of a paused run keeps control', async ({
  page,
  hub,
  context,
}) => {
  await open(page, hub);
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveText('paused after step 120');
  const watcher = await context.newPage();
  await open(watcher, hub);
  await expect(watcher.getByTestId('holder')).toContainText('viewer v1');
  await page.reload();
  await expect(page.getByTestId('holder')).toContainText('you');
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveText('live');
  await watcher.reload();
  await expect(watcher.getByTestId('holder')).toContainText('viewer v3');
  expect(hub.requests.filter(({ method }) => method === 'control.claim')).toHaveLength(2);
});

test('the sheet of control has the focus, and closes by Escape or a click elsewhere', async ({
  page,
  hub,
}) => {
  await open(page, hub);
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

test('the question mark shows the shortcuts', async ({ page, hub }) => {
  await open(page, hub);
  await page.locator('body').press('?');
  await expect(page.getByRole('dialog', { name: 'Keyboard' })).toBeVisible();
  await page.screenshot({ path: 'test-results/help.png' });
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog', { name: 'Keyboard' })).toBeHidden();
});
