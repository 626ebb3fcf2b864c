import { expect } from '@playwright/test';
import { kSlow, test, visit } from './real_run.ts';
import { idle, kSmoke, open } from './support.ts';

// What the page says of the run in whatever view it is: toasts, the title, and a run that waits.

test.use({ flags: kSlow });

test(
  'a pause can be taken back for three seconds, and the title tells it',
  kSmoke,
  async ({ page, run }) => {
    await page.clock.install();
    await run.goOn();
    await open(page, run);
    await expect(page).toHaveTitle(/^▶ \d+ · [\d.]+ · demo$/);
    await page.getByTestId('pause').click();
    const first = await run.pausedAfter();
    const toast = page.getByTestId('toast');
    await expect(toast).toContainText(`Paused after step ${first}`);
    await expect(page).toHaveTitle(new RegExp(`^⏸ ${first} · [\\d.]+ · demo$`));
    await page.screenshot({ path: 'test-results/toast.png' });
    await page.getByTestId('toast-action').click();
    await expect(page.getByTestId('chip')).toHaveText('live');
    await expect(toast).toHaveCount(0);
    await page.getByTestId('pause').click();
    await expect(toast).toHaveCount(1);
    await page.mouse.move(5, 300);
    await page.clock.fastForward(3100);
    await expect(toast).toHaveCount(0);
    const second = await run.pausedAfter();
    await expect(page.getByTestId('chip')).toHaveText(`paused after step ${second}`);
    await page.getByTestId('step-once').click();
    await expect(page.getByTestId('message')).toHaveText(`Step ${second + 1} done on 2/2 ranks`);
    await expect(toast).toHaveCount(0);
  },
);

test('who loses control is told, and a plan of another viewer too', async ({ page, run }) => {
  await visit(page, run, '', 'start');
  await page.getByTestId('holder').click();
  await page.getByTestId('claim').click();
  await expect(page.getByTestId('holder')).toContainText('you');
  await run.remote.claim('Ada');
  await expect(page.getByTestId('toast')).toHaveText('Ada took over control');
  const [first] = run.plan.entries;
  await run.remote.ask('plan.set', { plan: { entries: [first] } });
  await expect(page.getByTestId('toast').last()).toHaveText(
    'Plan 2 is in force from step 1 on, by Ada',
  );
});

test('a run that waits takes a plan before it is started', async ({ page, run }) => {
  await page.goto(run.url);
  const start = page.getByTestId('start').first();
  await expect(start).toBeEnabled();
  await idle(page);
  await expect(page.getByTestId('chip')).toHaveText('ready to start');
  await page.screenshot({ path: 'test-results/waiting.png' });
  expect(run.state.phase).toBe('waiting');
  await page.getByTestId('tab-plan').click();
  await page.getByLabel('Entry 2 on').click();
  await page.getByTestId('apply').click();
  await expect(page.getByTestId('plan-in-force')).toContainText('plan 2');
  expect(run.plan.number).toBe(2);
  expect(run.state.phase).toBe('waiting');
  await start.click();
  await expect(page.getByTestId('chip')).toHaveText('live');
  await page.getByTestId('tab-tensors').click();
  await expect(page.getByTestId('tile-map')).toBeVisible();
});
