import { expect, test } from '@playwright/test';
import { Reader } from './live_reader.ts';
import { smallRun } from './live_support.ts';
import { idle, kNightly } from './support.ts';

// Task e of live_tasks.spec.ts. It has a run that nobody else changes: the default plan was in force at both steps.

const kPatience = { timeout: 60_000 };

const kFiles = {
  'text.txt': 'Two steps of one prompt are compared. '.repeat(400),
  'code.txt': 'def f(x):\n',
};
const run = smallRun(kFiles, '--monitor-prompts', 'code.txt');

test('e: step 50 against 200 for a monitored prompt, in 3 clicks', kNightly, async ({ page }) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(run.url);
  await expect(page.getByTestId('tile-map')).toBeVisible(kPatience);
  const step = (): Promise<number> => page.evaluate(() => window.__tt?.app.newestStep ?? 0);
  await expect.poll(step, kPatience).toBeGreaterThan(200);
  const reader = new Reader(page);
  await reader.command('point hidden code', 'Point HiddenStates · code');
  await reader.click(page.getByTestId('tab-compare'));
  for (const [side, wanted] of [
    ['A', '200'],
    ['B', '50'],
  ] as const) {
    await reader.click(page.getByTestId(`step-${side}`));
    await page.keyboard.press('Control+a');
    await reader.type(wanted);
    await page.keyboard.press('Enter');
  }
  await expect(page.getByRole('heading', { name: /^A, step 200:/ }).first()).toBeVisible(kPatience);
  await expect(page.getByRole('heading', { name: /^B, step 50:/ }).first()).toBeVisible(kPatience);
  await idle(page);
  await page.screenshot({ path: 'test-results/task-e.png' });
  expect(reader.clicks).toBeLessThanOrEqual(3);
});
