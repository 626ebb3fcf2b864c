import AxeBuilder from '@axe-core/playwright';
import { expect, type Locator, type Page, test } from '@playwright/test';
import { idle, pixels, kNightly } from './support.ts';

// A typed prompt against a real run of tensor-tracer; playwright.live.config.ts asks for TT_PAGE_URL.

const kPatience = { timeout: 60_000 };
const kText = 'def fibonacci(n):';

async function openPrompts(page: Page): Promise<readonly string[]> {
  test.setTimeout(300_000);
  await page.setViewportSize({ width: 1440, height: 900 });
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  await page.goto(process.env.TT_PAGE_URL ?? '');
  await expect(page.getByTestId('chip')).toHaveText(/live|lagging/, kPatience);
  await page.getByTestId('tab-prompts').click();
  return complaints;
}

async function run(page: Page): Promise<void> {
  await page.getByTestId('prompt').fill(kText);
  await page.getByTestId('run-prompt').click();
  await expect(page.getByTestId('prompt-facts')).toContainText('17 tokens', kPatience);
}

async function choose(page: Page, point: string): Promise<void> {
  await page.getByTestId('prompt-point').selectOption({ label: point });
}

/** Axe and a picture, in both colour schemes. */
async function look(page: Page, name: string): Promise<void> {
  await page.mouse.move(0, 0);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await idle(page);
    await page.screenshot({ path: `test-results/prompts/${name}-${colorScheme}.png` });
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations.filter(
      ({ impact }) => impact === 'serious' || impact === 'critical',
    );
    expect(
      serious.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${String(node.target[0])}`)),
    ).toEqual([]);
  }
}

test('a prompt is typed, run, looked at, kept and removed', async ({ page }) => {
  const complaints = await openPrompts(page);

  await test.step('a text longer than a sequence cannot be run', async () => {
    await page.getByTestId('prompt').fill('x'.repeat(257));
    await expect(page.getByTestId('prompt-tokens')).toContainText('257 of 256 tokens');
    await expect(page.getByTestId('run-prompt')).toBeDisabled();
    await look(page, 'too-long');
  });

  await test.step('its text with the predictions', async () => {
    await run(page);
    await expect(page.getByTestId('tokens').getByRole('option')).toHaveCount(17, kPatience);
    await expect(page.getByTestId('predictions').locator('tbody tr')).toHaveCount(10);
    await expect(page.getByTestId('mean-loss')).toHaveText(/loss \d\S* nats/);
    await expect(page.getByRole('group', { name: /Without the active programs/ })).toHaveCount(0);
    await look(page, 'text');
  });

  await test.step('its logit lens: a cell for each layer and token', async () => {
    await choose(page, 'LogitLens');
    const grid = page.getByTestId('lens-grid');
    await expect(grid).toHaveAttribute('aria-colcount', '18', kPatience);
    await expect(grid).toHaveAttribute('aria-rowcount', '6');
    expect(await grid.getByRole('gridcell').count()).toBeGreaterThan(4);
    await page.getByTestId('prompt-layer').selectOption('2');
    await expect(page.getByRole('heading', { name: /^Layer 2, after position/ })).toBeVisible();
    await look(page, 'lens');
  });

  await test.step('its maps, attention and projections', async () => {
    await choose(page, 'HiddenStates');
    await expect(page.getByTestId('tile-map')).toBeVisible(kPatience);
    await idle(page);
    expect((await pixels(page.getByTestId('tile-map'))).colors).toBeGreaterThan(20);
    await look(page, 'maps');
    await choose(page, 'RawAttentionScore');
    await expect(page.getByTestId('attention-map')).toBeVisible(kPatience);
    await page.getByTestId('head').selectOption('1');
    await look(page, 'attention');
    await choose(page, 'HiddenStates · projection');
    await expect(page.getByTestId('projection-map')).toBeVisible(kPatience);
    await expect(page.getByTestId('token-colors').locator('span')).toHaveCount(17);
    await look(page, 'projections');
  });

  await test.step('it is kept and removed', async () => {
    await page.getByTestId('prompt-name').fill('fibonacci');
    await page.getByTestId('keep-prompt').click();
    await expect(page.getByTestId('prompt-notice')).toContainText('fibonacci is kept', kPatience);
    await expect(page.getByTestId('kept-prompts')).toContainText(kText);
    await page.getByTestId('tab-tensors').click();
    const points = page.getByTestId('point').locator('option');
    await expect(points.filter({ hasText: 'LogitLens · fibonacci' })).toHaveCount(1);
    await page.getByTestId('tab-prompts').click();
    await page.getByRole('button', { name: 'Remove the prompts fibonacci' }).click();
    await expect(page.getByTestId('prompt-notice')).toContainText('is removed', kPatience);
    await expect(page.getByTestId('kept-prompts')).not.toContainText('fibonacci');
  });
  expect(complaints).toEqual([]);
});

test('a prompt runs with the active programs off and on', kNightly, async ({ page }) => {
  const complaints = await openPrompts(page);
  await page.getByTestId('tab-interventions').click();
  await page.getByTestId('first-steer').click();
  const apply = page.getByTestId('apply-program');
  await expect(apply).toBeEnabled(kPatience);
  await apply.click();
  const force = page.getByTestId('interventions-in-force');
  await expect(force).toContainText(/applied at step/, kPatience);
  await page.getByTestId('tab-prompts').click();
  await run(page);
  await expect(page.getByTestId('prompt-program')).toHaveText(/^steer: changed values/);

  const loss = page.getByTestId('mean-loss');
  await expect(loss).toBeVisible(kPatience);
  const off = await loss.innerText();
  const side = (name: string): Locator => page.getByRole('button', { name, exact: true });
  await side('on').click();
  await expect(loss).not.toHaveText(off);
  await side('on − off').click();
  await expect(page.getByTestId('divergence')).toHaveText(/^KL\(on‖off\)/, kPatience);
  await look(page, 'difference');
  await choose(page, 'LogitLens');
  await expect(page.getByTestId('compare-lens-difference')).toBeVisible(kPatience);
  await look(page, 'lens-difference');
  await side('on').click();
  await expect(page.getByTestId('lens-grid')).toBeVisible();
  await choose(page, 'HiddenStates');
  await side('on − off').click();
  await expect(page.getByTestId('compare-tiles-difference')).toBeVisible(kPatience);
  await look(page, 'maps-difference');

  // 200 %: one column.
  await page.setViewportSize({ width: 720, height: 450 });
  await look(page, 'zoomed');
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByTestId('tab-interventions').click();
  await page.getByRole('button', { name: 'Revert steer' }).click();
  await expect(page.getByTestId('program-steer')).toHaveCount(0, kPatience);
  await page.getByTestId('tab-prompts').click();
  await run(page);
  await expect(page.getByTestId('prompt-program')).toHaveCount(0, kPatience);
  expect(complaints).toEqual([]);
});
