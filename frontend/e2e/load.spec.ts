import { expect } from '@playwright/test';
import { idle, open, test } from './support.ts';

test('a fast run leaves the main thread free', async ({ page, hub }) => {
  await open(page, hub);
  await page.evaluate(() => {
    const long: number[] = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) long.push(entry.duration);
    }).observe({ type: 'longtask' });
    Object.assign(window, { longTasks: long });
  });
  for (let i = 0; i < 60; i++) {
    hub.advance();
    await page.waitForTimeout(50);
  }
  await idle(page);
  await expect(page.getByTestId('shown-step')).toHaveText(`step ${hub.step}`);
  const long = await page.evaluate(() => (window as unknown as { longTasks: number[] }).longTasks);
  // The bound leaves room for a machine that does other work; what it must catch is redrawing all.
  expect(long.filter((duration) => duration > 100).length).toBeLessThanOrEqual(2);
});
