import AxeBuilder from '@axe-core/playwright';
import { expect, type Locator, type Page, test } from '@playwright/test';
import { tokenText } from '../src/ui/maps/token_text.ts';
import { readByPython, release } from './live_support.ts';
import { idle } from './support.ts';

// The numbers of the field on a real run: the page shows what live_numbers.py computes with NumPy from all scores
// of the same step. TT_PICTURES=DIR keeps pictures of the views.

const kPatience = { timeout: 60_000 };

interface Predictions {
  readonly best: readonly (readonly number[])[];
  readonly probabilities: readonly (readonly number[])[];
  readonly entropy: readonly number[];
  readonly loss: readonly number[];
}

interface Read {
  readonly step: number;
  readonly layer: number;
  readonly head: number;
  readonly tokens: readonly number[];
  readonly lens: Predictions;
  readonly text: Predictions;
  readonly entropy: readonly number[];
  readonly largest: readonly number[];
  readonly ratio: number;
  readonly largest_update: string;
  readonly update_ratio: number;
  readonly top: readonly (readonly [value: number, id: number])[];
}

const kAddress = process.env.TT_PAGE_URL ?? '';
/** The entries of the plan before the test. */
let before: readonly unknown[] = [];

async function show(page: Page, step: number, query: string): Promise<void> {
  await page.goto(kAddress.replace('/#', `/?step=${step}&${query}#`));
  await expect(page.getByTestId('shown-step')).toHaveText(`step ${step}`, kPatience);
}

/** The first number of a text, such as "12.3 %" or "loss 2.1 nats". */
async function numberIn(locator: Locator): Promise<number> {
  const text = (await locator.innerText()).replace(/−/g, '-');
  return Number(/-?\d[\d.]*(?:e-?\d+)?/.exec(text)?.[0]);
}

/** The number comes near; while its step is fetched the page may show the nearest one. */
async function near(locator: Locator, computed: number, share: number): Promise<void> {
  const far = async (): Promise<number> =>
    Math.abs((await numberIn(locator)) - computed) / Math.abs(computed);
  await expect.poll(far, kPatience).toBeLessThanOrEqual(share);
}

/** No serious finding, in both colours. */
async function look(page: Page, name: string): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await idle(page);
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations.filter(
      ({ impact }) => impact === 'serious' || impact === 'critical',
    );
    expect(serious.map(({ id, nodes }) => `${name}, ${id}: ${String(nodes[0].target[0])}`)).toEqual(
      [],
    );
    const folder = process.env.TT_PICTURES ?? 'test-results/numbers';
    await page.screenshot({ path: `${folder}/${name}-${colorScheme}.png` });
  }
}

test.beforeEach(async ({ page }) => {
  await page.goto(kAddress);
  const entries = (): Promise<readonly unknown[]> =>
    page.evaluate(() => window.__tt?.app.plan?.entries ?? []);
  await expect.poll(async () => (before = await entries()).length, kPatience).toBeGreaterThan(0);
});

// Other tests need the plan that the run had.
test.afterEach(async ({ page }) => {
  await page.evaluate((plan) => window.__tt?.app.control.setPlan({ entries: plan }), before);
  await release(page);
});

test('lens and text show the probabilities, losses and entropies of all scores', async ({
  page,
}) => {
  test.setTimeout(300_000);
  await page.setViewportSize({ width: 1440, height: 900 });
  const read = await readByPython<Read>('live_numbers.py', kAddress);
  const { step, layer, lens, text } = read;
  for (const token of [0, 3, 7, 15]) {
    await show(page, step, `layer=${layer}&point=LogitLens&token=${token}`);
    const cell = page.locator(`#lens-${layer - 1}-${token}`);
    await expect(cell).toHaveText(tokenText(lens.best[token][0], 'byte'), kPatience);
    const best = page.getByTestId('lens-best').locator('li');
    for (const rank of [0, 4]) {
      const shown = (await numberIn(best.nth(rank).locator('b'))) / 100;
      expect(Math.abs(shown - lens.probabilities[token][rank])).toBeLessThanOrEqual(6e-4);
    }
    await near(page.getByTestId('lens-loss'), lens.loss[token], 1e-3);
  }
  await page.locator(`#lens-${layer - 1}-3`).hover();
  await expect(page.getByTestId('tip').getByTestId('lens-best').locator('li')).toHaveCount(5);
  await page.getByTestId('lens-grid').press('ArrowDown');
  await expect(page).toHaveURL(new RegExp(`layer=${layer + 1}`));
  await page.getByRole('button', { name: 'entropy', exact: true }).click();
  await expect(page).toHaveURL(/lens=entropy/);
  await look(page, 'lens');

  await show(page, step, 'tab=text&token=5');
  const mean = text.loss.reduce((sum, each) => sum + each, 0) / text.loss.length;
  await expect(page.getByTestId('mean-loss')).toBeVisible(kPatience);
  await near(page.getByTestId('mean-loss'), mean, 1e-3);
  const chances = page.getByTestId('predictions').locator('.chance');
  const shown = (await numberIn(chances.first())) / 100;
  expect(Math.abs(shown - text.probabilities[5][0])).toBeLessThanOrEqual(6e-4);
  await near(page.getByTestId('entropy'), text.entropy[5], 5e-3);
  await expect(page.getByTestId('tokens').locator('.lost')).toHaveCount(read.tokens.length - 1);
  await look(page, 'text');
  await page.getByRole('button', { name: 'next token', exact: true }).click();
  await expect(page).toHaveURL(/color=rank/);
});

test(
  'heads, blocks, parameters and neurons show the numbers of the step',
  { tag: '@nightly' },
  async ({ page }) => {
    test.setTimeout(300_000);
    await page.setViewportSize({ width: 1440, height: 900 });
    const read = await readByPython<Read>('live_numbers.py', kAddress);
    const { step, layer, head } = read;
    const at = `layer=${layer}&head=${head}`;
    await show(page, step, `${at}&point=attention.entropy`);
    const cell = page
      .getByTestId('head-grid')
      .locator('tbody tr')
      .nth(layer - 1)
      .locator('td');
    await near(cell.nth(head), read.entropy[head], 6e-3);
    await look(page, 'health');
    await page.getByRole('button', { name: 'largest score', exact: true }).click();
    await expect(page.getByRole('heading', { name: /Largest score: layers/ })).toBeVisible(
      kPatience,
    );
    await near(cell.nth(head), read.largest[head], 6e-3);
    await cell.nth(0).click();
    await expect(page).not.toHaveURL(/head=/);

    await show(page, step, `${at}&point=mlp.contribution_ratio`);
    const row = page
      .getByTestId('contributions')
      .locator('li')
      .nth(layer - 1);
    await near(row.locator('b'), read.ratio, 1e-3);
    await look(page, 'contributions');

    await show(page, step, `${at}&point=Updates`);
    const first = page.getByTestId('updates').locator('tbody tr').first();
    await expect(first.locator('th')).toHaveText(read.largest_update, kPatience);
    await near(first.locator('td').nth(7), read.update_ratio, 1e-3);
    await page.getByRole('button', { name: 'weight norm', exact: true }).click();
    await expect(page).toHaveURL(/ucolumn=1/);
    await page.getByTestId('updates').locator('tbody tr').nth(2).getByRole('button').click();
    await expect(page).toHaveURL(/udrawn=/);
    await look(page, 'updates');

    await show(page, step, `${at}&point=MLPActivation%20%C2%B7%20top_tokens`);
    const rows = page.getByTestId('top-tokens').locator('tbody tr');
    await expect(rows).toHaveCount(read.top.length, kPatience);
    await near(rows.first().locator('.value'), read.top[0][0], 1e-3);
    await expect(rows.first().locator('mark')).toHaveText(tokenText(read.top[0][1], 'byte'));
    await page.getByTestId('top-unit').selectOption({ label: 'column 3' });
    await expect(page).toHaveURL(/vector=1/);
    await look(page, 'top-tokens');

    await page.goto(kAddress.replace('/#', `/?tab=compare&${at}&point=mlp.contribution_ratio#`));
    await expect(page.getByTestId('compare-contributions-difference')).toBeVisible(kPatience);
    await page.getByTestId('point').selectOption('LogitLens');
    await expect(page.getByTestId('compare-lens-difference')).toBeVisible(kPatience);
    await look(page, 'compare-lens');

    await page.getByTestId('tab-plan').click();
    await expect(page.getByTestId('plan-list')).toBeVisible(kPatience);
    for (const name of [
      'Logit lens of the prompts',
      'Attention health',
      'Weights, gradients, updates',
    ]) {
      await page.getByTestId('plan-presets').getByRole('button', { name }).first().click();
      await expect(page.getByTestId('plan-estimate')).not.toHaveClass(/stale/, kPatience);
      await expect(page.getByTestId('plan-flops')).toHaveText(/FLOP per step$/, kPatience);
    }
    await look(page, 'plan');
  },
);
