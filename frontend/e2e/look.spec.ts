import { expect, test } from '@playwright/test';
import { fileURLToPath } from 'node:url';
import { FakeHub } from './fake_hub.ts';

const kDist = fileURLToPath(new URL('../dist', import.meta.url));

for (const theme of ['dark', 'light'] as const) {
  test(`screenshot of the page in ${theme}`, async ({ browser }) => {
    const hub = new FakeHub({ dist: kDist });
    await hub.start();
    const page = await browser.newPage({ colorScheme: theme, viewport: { width: 1280, height: 720 } });
    page.on('console', (m) => console.log(m.text()));
    page.on('pageerror', (e) => console.log(e.stack));
    await page.goto(hub.url);
    await expect(page.getByTestId('tile-map')).toBeVisible();
    for (let i = 0; i < 5; i++) hub.advance();
    await page.waitForTimeout(300);
    await page.evaluate(() => window.__tt?.idle());
    await page.screenshot({ path: `test-results/page-${theme}.png` });
    await page.close();
    await hub.stop();
  });
}
