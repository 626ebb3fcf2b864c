import { kTiles, kTokens, test } from './recorded.ts';
import { advance, hoverTile, open } from './support.ts';

// Pictures for review: test-results/page-*.png.
for (const colorScheme of ['dark', 'light'] as const) {
  test(`the page in ${colorScheme}`, async ({ page, recorded }) => {
    await page.emulateMedia({ colorScheme });
    await open(page, recorded);
    await page.getByTestId('layer').selectOption('3');
    await advance(page, recorded, 5);
    await page.screenshot({ path: `test-results/page-${colorScheme}.png` });
    await hoverTile(page, 4, 15, kTiles, kTokens);
    await page.screenshot({ path: `test-results/page-${colorScheme}-hover.png` });
    await page.mouse.move(5, 5);
    await page.getByRole('button', { name: 'max |x|' }).click();
    await page.setViewportSize({ width: 1920, height: 1080 });
    await advance(page, recorded);
    await page.screenshot({ path: `test-results/page-${colorScheme}-wide.png` });
  });
}
