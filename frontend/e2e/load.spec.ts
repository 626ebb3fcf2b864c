import { expect } from '@playwright/test';
import { test } from './real_run.ts';
import { idle, open } from './support.ts';

test('a fast run leaves the main thread free', async ({ page, run }) => {
  await run.goOn();
  await open(page, run);
  await page.evaluate(() => {
    const long: number[] = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) long.push(entry.duration);
    }).observe({ type: 'longtask' });
    Object.assign(window, { longTasks: long });
  });
  const first = run.step;
  await expect.poll(() => run.step).toBeGreaterThan(first + 60);
  await run.remote.claim('Ada');
  await run.remote.ask('control.pause', {});
  const last = await run.pausedAfter();
  await expect(page.getByTestId('shown-step')).toHaveText(`step ${last}`);
  await idle(page);
  const long = await page.evaluate(() => (window as unknown as { longTasks: number[] }).longTasks);
  // The bound leaves room for a machine that does other work; what it must catch is redrawing all.
  expect(long.filter((duration) => duration > 100).length).toBeLessThanOrEqual(2);
});
