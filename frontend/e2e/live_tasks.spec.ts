import { expect, test } from '@playwright/test';
import { Reader } from './live_reader.ts';
import { idle, kNightly } from './support.ts';

// What a reader wants to know of a run with the default plan, and how many clicks it may take. Typing is
// not counted; a choice from a list is two clicks.

const kPatience = { timeout: 60_000 };
// Many steps on a slow machine.
const kLong = { timeout: 150_000 };

test.describe.configure({ mode: 'serial' });

let before: readonly unknown[] = [];

test.beforeEach(async ({ page }) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(process.env.TT_PAGE_URL ?? '');
  await expect(page.getByTestId('tile-map')).toBeVisible(kPatience);
  // The lease of a page that was closed ends after 30 s.
  const training = page.getByRole('group', { name: 'Training control' });
  await expect(training).toContainText(/Control\s*free/, kPatience);
  before = await page.evaluate(() => window.__tt?.app.plan?.entries ?? []);
});

/** The next reader finds the default plan again, and nobody in control. */
test.afterEach(async ({ page }) => {
  await page.evaluate(async (entries) => {
    await window.__tt?.app.control.setPlan({ entries });
    await window.__tt?.app.control.release();
  }, before);
});

test('a: which layer of the residual stream grows fastest, in 3 clicks', async ({ page }) => {
  test.setTimeout(kLong.timeout + 120_000);
  const reader = new Reader(page);
  await expect(page.getByTestId('point')).toHaveValue('HiddenStates');
  await reader.click(page.getByTestId('show-stats'));
  await expect(page.getByTestId('stats-table')).toBeVisible(kPatience);
  const kept = (): Promise<number> =>
    page.evaluate(() => window.__tt?.app.frame?.steps.length ?? 0);
  await expect.poll(kept, kLong).toBeGreaterThan(5);
  await reader.click(page.getByTestId('hold'));
  await reader.click(page.getByTestId('sort-growth'));
  await idle(page);
  const lines = await page.evaluate(() => window.__tt?.app.frame?.history?.lines.rms ?? []);
  const growth = lines.map((line) => (line.at(-1) ?? NaN) / (line[0] ?? NaN));
  const ordered = [...growth.keys()].sort((one, other) => growth[other] - growth[one]);
  // The demo traces the layers from the first on.
  const names = await page.getByTestId('stats-table').locator('tbody th').allInnerTexts();
  expect(names.map((name) => name.trim())).toEqual(ordered.map((layer) => `L${layer + 1}`));
  await page.screenshot({ path: 'test-results/task-a.png' });
  expect(reader.clicks).toBeLessThanOrEqual(3);
});

test(
  'b: attention of head 2 in layer 3 for this batch with its text, in 4 clicks',
  kNightly,
  async ({ page }) => {
    test.setTimeout(kLong.timeout + 120_000);
    const reader = new Reader(page);
    await reader.command('raw attention', 'RawAttentionScore');
    await expect(page.getByTestId('attention-map')).toBeVisible(kLong);
    await reader.choose(page.getByTestId('layer'), '3');
    await reader.click(page.getByTestId('head-maps').getByRole('button').nth(2));
    await expect(page.getByRole('heading', { name: 'Layer 3, head 2' })).toBeVisible(kPatience);
    await expect(page.getByTestId('query-text').locator('span').nth(20)).toBeVisible();
    await idle(page);
    await page.screenshot({ path: 'test-results/task-b.png' });
    expect(reader.clicks).toBeLessThanOrEqual(4);
  },
);

test(
  'c: statistics of MLP activations of layers 2 and 3 every 2 steps, in 6 clicks',
  kNightly,
  async ({ page }) => {
    const reader = new Reader(page);
    await reader.click(page.getByTestId('tab-plan'));
    await expect(page.getByTestId('plan-list')).toBeVisible(kPatience);
    await reader.click(page.getByTestId('plan-add'));
    await expect(page.getByLabel(/^Point of entry/)).toBeFocused();
    await reader.type('MLPActivation', 'Tab', '2-3');
    await reader.choose(page.getByLabel(/^Compressor of entry/), 'stats');
    await reader.click(page.getByLabel(/^Every how many steps/));
    await page.keyboard.press('Control+a');
    await reader.type('2');
    await reader.click(page.getByTestId('apply'));
    await expect(page.getByTestId('plan-in-force')).toContainText(/on 2\/2 ranks/, kPatience);
    const entries = await page.evaluate(() => window.__tt?.app.plan?.entries ?? []);
    expect(entries.at(-1)).toMatchObject({
      ...{ point: 'MLPActivation', layers: '2-3', every: 2 },
      compressor: { kind: 'stats' },
    });
    expect(reader.clicks).toBeLessThanOrEqual(6);
  },
);
