import { expect, type Page, test } from '@playwright/test';
import AxeBuilder from '@axe-core/playwright';
import { release } from './live_support.ts';
import { idle, kNightly } from './support.ts';

// Alarms of a real hub and a real run: set on a curve, seen by every viewer, kept over a reload.

const kPatience = { timeout: 60_000 };

async function open(page: Page): Promise<void> {
  await page.goto(process.env.TT_PAGE_URL ?? '');
  await expect(page.getByTestId('chip')).toHaveText(/live|lagging/, kPatience);
}

/** Adds an entry to the plan in force, by the point and the compressor. */
async function trace(page: Page, point: string, kind: string): Promise<void> {
  await page.evaluate(
    async (added) => {
      const app = window.__tt?.app;
      const entries = [...(app?.plan?.entries ?? []), added];
      await app?.control.setPlan({ entries });
    },
    { point, compressor: { kind } },
  );
}

test.afterEach(({ page }) => release(page));

async function serious(page: Page): Promise<readonly string[]> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${String(node.target[0])}`));
}

test('an alarm on the loss is set on its curve, fires for every viewer and is removed', async ({
  page,
  context,
}) => {
  test.setTimeout(180_000);
  await page.setViewportSize({ width: 1440, height: 900 });
  await open(page);
  const other = await context.newPage();
  await open(other);

  await page.getByTestId('tab-overview').click();
  await page.getByTestId('alarm-on-loss').click();
  await expect(page.getByTestId('no-alarms')).toBeVisible();
  await page.getByTestId('alarm-test').selectOption('value above');
  await page.getByTestId('set-alarm').click();
  await expect(page.getByTestId('alarm-error')).toContainText('value: the test above needs it');
  await page.getByTestId('alarm-value').fill('0.001');
  await page.getByTestId('alarm-name').fill('any loss');
  await page.getByTestId('set-alarm').click();
  await expect(page.getByTestId('alarm-list')).toContainText('any loss', kPatience);
  await expect(page.getByTestId('alarm-list')).toContainText('loss: above 0.001');
  expect(await serious(page)).toEqual([]);

  for (const each of [page, other]) {
    await expect(each.getByTestId('alarm')).toContainText(
      'alarm any loss: loss is above',
      kPatience,
    );
    await expect(each).toHaveTitle(/^⚠ /);
  }
  await page.getByRole('button', { name: 'Close' }).click();
  await expect(page.getByTestId('event-list')).toContainText('alarm any loss: loss is above');
  await expect(page.getByTestId('alarms')).toHaveText('Alarms ⚠ 1');
  await idle(page);
  await page.screenshot({ path: 'test-results/session/alarm-fires.png' });

  await other.reload();
  await expect(other.getByTestId('alarm')).toContainText('alarm any loss', kPatience);
  await page.getByTestId('alarms').click();
  await page.getByRole('button', { name: 'Remove any loss' }).click();
  await expect(page.getByTestId('no-alarms')).toBeVisible(kPatience);
  await expect(other.getByTestId('alarm')).toHaveCount(0);
  await expect(other).not.toHaveTitle(/^⚠ /);
});

test(
  'an alarm watches a statistic of every layer, and tells the first that left its range',
  kNightly,
  async ({ page }) => {
    test.setTimeout(180_000);
    await open(page);
    await page.getByTestId('tab-tensors').click();
    await expect(async () => {
      await trace(page, 'HiddenStates', 'stats');
      await page.getByTestId('point').selectOption('HiddenStates · stats', { timeout: 2000 });
    }).toPass(kPatience);
    await page.getByTestId('alarm-on-records').click(kPatience);
    await page.getByTestId('alarm-layers').fill('');
    await page.getByTestId('alarm-statistic').selectOption('rms');
    await page.getByTestId('alarm-test').selectOption('value outside of a range');
    await page.getByTestId('alarm-low').fill('-2');
    await page.getByTestId('alarm-high').fill('-1');
    await page.getByTestId('alarm-name').fill('layers');
    // The page of the test before may still hold control, for 30 s.
    await expect(async () => {
      await page.getByTestId('set-alarm').click();
      await expect(page.getByTestId('alarm-list')).toContainText('layers', { timeout: 2000 });
    }).toPass(kPatience);
    await expect(page.getByTestId('alarm')).toContainText(
      /rms of .* in layer 1 is outside/,
      kPatience,
    );
    await page.getByRole('button', { name: 'Remove layers' }).click();
    await expect(page.getByTestId('alarm')).toHaveCount(0);
  },
);

/** The browser notifications of the page are kept instead of shown. */
async function keepNotifications(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const kept: string[] = [];
    const Kept = function (title: string, { body }: { body: string }): void {
      kept.push(`${title}: ${body}`);
    };
    Kept.permission = 'granted';
    Kept.requestPermission = () => Promise.resolve('granted');
    Object.assign(window, { Notification: Kept, keptNotifications: kept });
  });
}

test(
  'an alarm pauses the run until somebody continues it, and notifies the browser',
  kNightly,
  async ({ page }) => {
    test.setTimeout(180_000);
    await page.setViewportSize({ width: 1440, height: 900 });
    await keepNotifications(page);
    await open(page);
    await page.getByTestId('tab-overview').click();
    await page.getByTestId('alarm-on-loss').click();
    await page.getByRole('checkbox', { name: /^Show a notification/ }).check();
    await page.getByTestId('alarm-test').selectOption('value above');
    await page.getByTestId('alarm-value').fill('0.001');
    await page.getByTestId('alarm-name').fill('stop here');
    await page.getByLabel('pause the run').check();
    await expect(async () => {
      await page.getByTestId('set-alarm').click();
      await expect(page.getByTestId('alarm-list')).toContainText('stop here', { timeout: 2000 });
    }).toPass(kPatience);
    await page.getByRole('button', { name: 'Close' }).click();
    const chip = page.getByTestId('chip');
    await expect(chip).toHaveAttribute('data-word', 'paused', kPatience);
    const step = await page.evaluate(() => window.__tt?.app.newestStep);
    const kept = (): Promise<readonly string[]> =>
      page.evaluate(() => (window as { keptNotifications?: string[] }).keptNotifications ?? []);
    await expect
      .poll(kept)
      .toEqual([expect.stringMatching(/^⚠ demo: alarm stop here: loss is above/)]);
    await page.waitForTimeout(1500);
    expect(await page.evaluate(() => window.__tt?.app.newestStep)).toBe(step);
    await page.getByTestId('pause').click();
    await expect(chip).toHaveText(/live|lagging/, kPatience);
    await expect
      .poll(() => page.evaluate(() => window.__tt?.app.newestStep), kPatience)
      .toBeGreaterThan(step ?? 0);
    await page.getByTestId('alarms').click();
    await page.getByRole('button', { name: 'Remove stop here' }).click();
    await expect(page.getByTestId('alarm')).toHaveCount(0);
  },
);

for (const { point, says } of [
  { point: 'attention.entropy', says: /attention\.entropy\[0\] in layer 1 is above -1/ },
  { point: 'mlp.contribution', says: /mlp\.contribution in layer 1 is above -1/ },
  { point: 'Updates', says: /Updates\[update_ratio\] of .* is above -1/ },
]) {
  test(`an alarm watches the curve of ${point}`, kNightly, async ({ page }) => {
    test.setTimeout(180_000);
    await open(page);
    await page.getByTestId('tab-tensors').click();
    await expect(async () => {
      await trace(page, point, 'none');
      await page.getByTestId('point').selectOption(point, { timeout: 2000 });
    }).toPass(kPatience);
    await page.getByTestId('alarm-on-records').click(kPatience);
    await page.getByTestId('alarm-test').selectOption('value above');
    await page.getByTestId('alarm-value').fill('-1');
    await page.getByTestId('alarm-name').fill('any value');
    await expect(async () => {
      await page.getByTestId('set-alarm').click();
      await expect(page.getByTestId('alarm-list')).toContainText('any value', { timeout: 2000 });
    }).toPass(kPatience);
    await expect(page.getByTestId('alarm')).toContainText(says, kPatience);
    await page.getByRole('button', { name: 'Remove any value' }).click();
    await expect(page.getByTestId('alarm')).toHaveCount(0);
  });
}
