import { expect, type Page, test } from '@playwright/test';
import { idle, tipValue } from './support.ts';

// A run that follows a direction, as examples/persona_direction.py makes one: its curves, its text, its alarm and
// its map in the view Traits. TT_PICTURES=DIR keeps the pictures that the docs show.

const kPatience = { timeout: 60_000 };

interface Entry {
  readonly compressor?: { readonly kind: string; readonly vectors?: readonly string[] };
}

async function takePictures(page: Page, name: string): Promise<void> {
  await page.mouse.move(0, 0);
  const folder = process.env.TT_PICTURES ?? 'test-results/session';
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await idle(page);
    await page.screenshot({ path: `${folder}/${name}-${colorScheme}.png` });
  }
}

test('a direction is followed over the steps', async ({ page }) => {
  test.setTimeout(300_000);
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(process.env.TT_PAGE_URL ?? '');
  await expect(page.getByTestId('chip')).toHaveText(/live|lagging/, kPatience);
  const entries = await page.evaluate(() => window.__tt?.app.plan?.entries ?? []);
  const followed = entries
    .map((entry) => (entry as Entry).compressor)
    .find((compressor) => compressor?.kind === 'projection');
  expect(followed, 'scripts/live_page.py gives the run a vector').toBeDefined();
  const vector = followed?.vectors?.[0] ?? '';

  await page.getByTestId('point').selectOption({ label: 'HiddenStates · projection' });
  await expect(page.getByTestId('projection-map')).toBeVisible(kPatience);
  await page.getByTestId('layer').selectOption('3');
  await page.getByRole('button', { name: 'mean', exact: true }).click();
  const unit = page.getByRole('heading', { name: `activation along ${vector}` });
  await expect(unit.first()).toBeVisible();
  const kept = (): Promise<number | undefined> =>
    page.evaluate(() => window.__tt?.app.frame?.steps.length);
  await expect.poll(kept, { timeout: 150_000 }).toBeGreaterThan(25);
  await idle(page);
  const text = page.getByTestId('token-colors').locator('span');
  await expect.poll(() => text.count(), kPatience).toBeGreaterThan(100);

  const readout = await page.getByTestId('layer-readout').innerText();
  const newest = Number(/L3\s+(\S+)/.exec(readout)?.[1].replace('−', '-'));
  expect(Number.isFinite(newest)).toBe(true);
  await page.getByTestId('alarm-on-records').click();
  await page.getByTestId('alarm-test').selectOption('value outside of a range');
  // The newest value is outside.
  await page.getByTestId('alarm-low').fill((newest + 1000).toFixed(3));
  await page.getByTestId('alarm-high').fill((newest + 2000).toFixed(3));
  await page.getByTestId('alarm-name').fill('direction');
  // The page of the test before may still hold control, for 30 s.
  await expect(async () => {
    await page.getByTestId('set-alarm').click();
    await expect(page.getByTestId('alarm-list')).toContainText('direction', { timeout: 2000 });
  }).toPass(kPatience);
  await page.getByRole('button', { name: 'Close' }).click();
  await expect(page.getByTestId('alarm')).toContainText(
    `on ${vector} in layer 3 is outside`,
    kPatience,
  );
  await text.first().hover();
  expect(Number.isFinite(await tipValue(page))).toBe(true);

  await takePictures(page, 'projection');
  await page.getByTestId('alarms').click();
  await page.getByRole('button', { name: 'Remove direction' }).click();
  await expect(page.getByTestId('alarm')).toHaveCount(0);

  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByTestId('tab-traits').click();
  await expect(page.getByTestId('trait-map-0')).toBeVisible(kPatience);
  const moving = page.getByTestId('traits-readout');
  await expect(moving).toContainText(vector);
  const before = await moving.innerText();
  await expect(moving, 'a newer step').not.toHaveText(before, kPatience);
  await takePictures(page, 'traits');
});
