import { expect, type Page, test } from '@playwright/test';
import { idle, openPlan, pixels } from './support.ts';

// The page against a real run of tensor-tracer; playwright.live.config.ts asks for TT_PAGE_URL.
// The run must be training and need no more than a few seconds a step.

const kPatience = { timeout: 60_000 };

async function shownStep(page: Page): Promise<number> {
  return Number((await page.getByTestId('shown-step').innerText()).replace(/\D/g, ''));
}

/** The views that the other steps do not visit. */
async function lookAround(page: Page): Promise<void> {
  await page.getByTestId('tab-model').click();
  await expect(page.getByTestId('model').getByRole('button').first()).toBeVisible(kPatience);
  await page.getByTestId('tab-compare').click();
  await expect(page.getByTestId('compare-tiles-difference')).toBeVisible(kPatience);
  await page.getByTestId('tab-tensors').click();
  await page.getByTestId('point').selectOption('+RawAttentionScore');
  await expect(page.getByTestId('head-maps')).toBeVisible(kPatience);
  await idle(page);
  expect(
    (await pixels(page.getByTestId('head-maps').locator('canvas').first())).colors,
  ).toBeGreaterThan(10);
  await page.getByTestId('point').selectOption('HiddenStates');
  await expect(page.getByTestId('tile-map')).toBeVisible(kPatience);
}

test('a real run is shown, paused, stepped, continued and given another plan', async ({ page }) => {
  test.setTimeout(300_000);
  const url = process.env.TT_PAGE_URL ?? '';
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  await page.goto(url);
  await expect(page.getByTestId('tile-map')).toBeVisible(kPatience);
  expect(page.url()).not.toContain('token');
  const chip = page.getByTestId('chip');
  const tiles = page.locator('input[aria-label^="Tiles of entry"]:enabled');

  await test.step('data move and are not constant', async () => {
    const first = await shownStep(page);
    await expect.poll(() => shownStep(page), kPatience).toBeGreaterThan(first);
    await idle(page);
    expect((await pixels(page.getByTestId('layer-map'))).colors).toBeGreaterThan(20);
    expect((await pixels(page.getByTestId('tile-map'))).colors).toBeGreaterThan(20);
    expect((await pixels(page.locator('.uplot canvas').first())).colors).toBeGreaterThan(10);
    await page.screenshot({ path: 'test-results/live.png' });
  });

  await test.step('pause holds the run', async () => {
    await page.getByTestId('pause').click();
    await expect(chip).toHaveAttribute('data-word', 'paused', kPatience);
    await idle(page);
    const held = await shownStep(page);
    await page.waitForTimeout(2000);
    expect(await shownStep(page)).toBe(held);
  });

  await test.step('step trains one', async () => {
    const held = await shownStep(page);
    await page.getByTestId('step-once').click();
    await expect.poll(() => shownStep(page), kPatience).toBe(held + 1);
    await expect(chip).toHaveAttribute('data-word', 'paused');
    await expect(page.getByTestId('message')).toContainText(`Step ${held + 1} done on`);
  });

  await test.step('continue goes on', async () => {
    const held = await shownStep(page);
    await page.getByTestId('pause').click();
    await expect(chip).toHaveText(/live|lagging/, kPatience);
    await expect.poll(() => shownStep(page), kPatience).toBeGreaterThan(held + 1);
  });

  await test.step('model, compare and attention show the run', () => lookAround(page));

  await test.step('a plan that does not fit is refused with a reason', async () => {
    await openPlan(page);
    // The first entry that has tiles: token ids have none.
    await page
      .getByTestId('plan-list')
      .getByRole('row')
      .filter({ hasText: 'tile' })
      .first()
      .click();
    await tiles.fill('99999999');
    await page.getByTestId('apply').click();
    await expect(page.getByTestId('plan-outcome').locator('.error')).toBeVisible(kPatience);
  });

  await test.step('a draft is checked while it is typed', async () => {
    await tiles.fill('16');
    await expect(page.getByTestId('plan-bytes')).toHaveText(/^[\d.]+.[KM]?i?B$/, kPatience);
    await page.getByLabel(/^Method of entry/).selectOption({ label: 'expression …' });
    const expression = page.getByLabel(/^Expression of entry/);
    await expression.pressSequentially('data.maen(dim=-1)');
    const caret = page.getByTestId('expression-caret');
    await expect.poll(() => caret.textContent(), kPatience).toBe('     ^~~~');
    await expect(expression).toBeFocused();
    await page.screenshot({ path: 'test-results/live-expression.png' });
    await expression.fill('data.abs().amax(dim=-1)');
    await expect(page.getByTestId('plan-bytes')).not.toHaveText('–', kPatience);
  });

  await test.step('another plan comes into force', async () => {
    await page.getByTestId('apply').click();
    await expect(page.getByTestId('plan-in-force')).toHaveText(
      /^In force since step \d+ on (\d+)\/\1 ranks, as plan \d+$/,
      kPatience,
    );
    await page.getByTestId('tab-tensors').click();
    await expect(page.getByText(/^16 tiles of \d+ columns$/)).toBeAttached(kPatience);
    await idle(page);
    await page.screenshot({ path: 'test-results/live-plan.png' });
  });

  await test.step('every preset comes into force', async () => {
    await openPlan(page);
    for (const preset of await page.getByTestId('plan-presets').locator('.replace').all()) {
      const before = await page.getByTestId('plan-in-force').innerText();
      await preset.click();
      await page.getByTestId('apply').click();
      await expect(page.getByTestId('plan-in-force')).not.toHaveText(before, kPatience);
      await expect(page.getByTestId('plan-outcome')).toHaveText(/No changes/, kPatience);
    }
  });

  expect(complaints).toEqual([]);
});
