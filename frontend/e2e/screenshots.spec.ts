import { kRecordedViews, kLiveViews, showLive, showRecorded } from './all_views.ts';
import { test as liveTest } from './real_run.ts';
import { kTiles, kTokens, test } from './recorded.ts';
import { advance, hoverTile, kNightly, open } from './support.ts';

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

  const fileOf = (view: string): string => `test-results/views/${view}-${colorScheme}.png`;

  test(`every view of records in ${colorScheme}`, kNightly, async ({ page, recorded }) => {
    test.slow();
    await page.emulateMedia({ colorScheme });
    for (const [view] of kRecordedViews) {
      await showRecorded(page, recorded, view);
      await page.screenshot({ path: fileOf(view) });
    }
  });

  liveTest(`every view of a run in ${colorScheme}`, kNightly, async ({ page, run }) => {
    await page.emulateMedia({ colorScheme });
    for (const [view] of kLiveViews) {
      await showLive(page, run, view);
      await page.screenshot({ path: fileOf(view) });
    }
  });
}
