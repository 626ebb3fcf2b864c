import { FakeHub } from './fake_hub.ts';
import { advance, hoverTile, kDist, open, test } from './support.ts';

// Pictures for review: test-results/page-*.png.
for (const colorScheme of ['dark', 'light'] as const) {
  test(`the page in ${colorScheme}`, async ({ browser }) => {
    const hub = new FakeHub({ dist: kDist, firstStep: 178 });
    await hub.start();
    const page = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 720 } });
    await open(page, hub);
    await page.getByTestId('layer').selectOption('3');
    await advance(page, hub, 5);
    await page.screenshot({ path: `test-results/page-${colorScheme}.png` });
    await hoverTile(page, 31, 150);
    await page.screenshot({ path: `test-results/page-${colorScheme}-hover.png` });
    await page.mouse.move(5, 5);
    await page.getByRole('button', { name: 'max |x|' }).click();
    await page.getByTestId('pause').click();
    await page.setViewportSize({ width: 1920, height: 1080 });
    await advance(page, hub, 1);
    await page.screenshot({ path: `test-results/page-${colorScheme}-wide.png` });
    await page.close();
    await hub.stop();
  });
}
