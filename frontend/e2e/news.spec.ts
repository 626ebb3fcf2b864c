import { expect } from '@playwright/test';
import { advance, idle, kSmoke, open, test } from './support.ts';

// What the page says of the run in whatever view it is: toasts, the title, and a run that waits.

test(
  'a pause can be taken back for three seconds, and the title tells it',
  kSmoke,
  async ({ page, hub }) => {
    await page.clock.install();
    await open(page, hub);
    await expect(page).toHaveTitle(/^▶ 120 · [\d.]+ · shakespeare-demo$/);
    await page.getByTestId('pause').click();
    const toast = page.getByTestId('toast');
    await expect(toast).toContainText('Paused after step 120');
    await expect(page).toHaveTitle(/^⏸ 120 · [\d.]+ · shakespeare-demo$/);
    await page.screenshot({ path: 'test-results/toast.png' });
    await page.getByTestId('toast-action').click();
    await expect(page.getByTestId('chip')).toHaveText('live');
    await expect(toast).toHaveCount(0);
    await page.getByTestId('pause').click();
    await expect(toast).toHaveCount(1);
    await page.mouse.move(5, 300);
    await page.clock.fastForward(3100);
    await expect(toast).toHaveCount(0);
    await expect(page.getByTestId('chip')).toHaveText('paused after step 120');
    await page.getByTestId('step-once').click();
    await expect(page.getByTestId('message')).toHaveText('Step 121 done on 2/2 ranks');
    await expect(toast).toHaveCount(0);
  },
);

test('who loses control is told, and a plan of another viewer too', async ({ page, hub }) => {
  await open(page, hub);
  await page.getByTestId('holder').click();
  await page.getByTestId('claim').click();
  await expect(page.getByTestId('holder')).toContainText('you');
  hub.setHolder({ session: 'v99', name: 'Ada' });
  await expect(page.getByTestId('toast')).toHaveText('Ada took over control');
  hub.broadcast('plan', { plan: { ...hub.plan, number: 7 }, step: 130 });
  await expect(page.getByTestId('toast').last()).toHaveText(
    'Plan 7 is in force from step 130 on, by Ada',
  );
});

test('a run that waits takes a plan before it is started', async ({ page, hub }) => {
  hub.phase = 'waiting';
  hub.step = 0;
  await page.goto(hub.url);
  const start = page.getByTestId('start').first();
  await expect(start).toBeEnabled();
  await idle(page);
  await expect(page.getByTestId('chip')).toHaveText('ready to start');
  await page.screenshot({ path: 'test-results/waiting.png' });
  expect(hub.phase).toBe('waiting');
  await page.getByTestId('tab-plan').click();
  await page.getByLabel('Entry 2 on').click();
  await page.getByTestId('apply').click();
  await expect(page.getByTestId('plan-in-force')).toContainText('plan 2');
  expect(hub.phase).toBe('waiting');
  await start.click();
  await expect(page.getByTestId('chip')).toHaveText('live');
  await page.getByTestId('tab-tensors').click();
  await advance(page, hub);
  await expect(page.getByTestId('tile-map')).toBeVisible();
});
