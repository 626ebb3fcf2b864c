import { expect, type Locator, type Page } from '@playwright/test';
import { test } from './recorded.ts';
import { choose, idle, open } from './support.ts';

// Every view says what its numbers are: titles in what they are counted, legends what colours stand for.

test.beforeEach(async ({ page, recorded }) => {
  await open(page, recorded);
});

async function show(page: Page, point: string): Promise<void> {
  await page.getByTestId('point').selectOption(point);
  await idle(page);
}

function quantity(page: Page, legend: string): Locator {
  return page.getByLabel(`Colour legend of the ${legend}`, { exact: true }).locator('.quantity');
}

/** What stands beside the titles that begin so. */
function unit(page: Page, title: string): Locator {
  return page.getByRole('heading', { name: new RegExp(`^${title}`) }).locator('.unit');
}

test('curves', async ({ page }) => {
  await page.getByTestId('tab-overview').click();
  await expect(unit(page, 'Loss')).toHaveText('nats/byte');
  await expect(unit(page, 'Grad norm')).toHaveText('L2');
  await expect(unit(page, 'Learning rate')).toHaveText('step size');
  await expect(unit(page, 'Speed')).toHaveText('tokens/s');
});

test('maps of a layer, of all and over the steps', async ({ page }) => {
  const tile = 'activation, mean over tile';
  await expect(quantity(page, 'layer map')).toHaveText(`${tile}, mean over tiles`);
  await expect(quantity(page, 'tile map')).toHaveText(tile);
  await choose(page, 'max |x|');
  await expect(quantity(page, 'layer map')).toHaveText(`${tile}, largest |x| over tiles`);
  await choose(page, 'all layers');
  await expect(quantity(page, 'maps of the layers')).toHaveText(tile);
  await choose(page, 'over steps');
  await expect(quantity(page, 'summary map')).toHaveText(`${tile}, largest |x| over all`);
  await choose(page, 'one layer');
  await show(page, 'HiddenStates · gradient');
  await expect(quantity(page, 'tile map')).toHaveText('gradient of the loss, mean over tile');
});

test('statistics', async ({ page }) => {
  await show(page, 'HiddenStates · stats');
  await expect(unit(page, 'Statistics of all numbers')).toHaveText('activation');
  await expect(unit(page, 'Root mean square')).toHaveText('activation');
  await expect(unit(page, 'Layer 1: histogram')).toHaveText('count by |activation|');
  await expect(unit(page, 'Layer 1 over the steps')).toHaveText('count by |activation|');
  await expect(page.getByTestId('stats-table')).toContainText('zeros, fraction');
  await page.getByTestId('stat').selectOption('bad');
  await expect(unit(page, 'Numbers that are not finite')).toHaveText('count');
});

test('projections, attention and predictions', async ({ page }) => {
  const evil = 'activation along evil';
  await show(page, 'HiddenStates · projection');
  await expect(unit(page, 'On evil, last token')).toHaveText(evil);
  await expect(unit(page, 'Text, coloured by L1')).toHaveText(evil);
  await expect(quantity(page, 'projection map')).toHaveText(evil);
  await show(page, 'RawAttentionScore');
  const attention = page.getByRole('region', { name: 'Layer 1, head 0: queries × keys' });
  await expect(attention.getByRole('paragraph')).toHaveText(
    "attention probability ÷ the row's largest",
  );
  await choose(page, 'full');
  await expect(quantity(page, 'maps of the heads')).toHaveText('attention probability');
  await show(page, 'Logits');
  await expect(quantity(page, 'map of the largest')).toHaveText('logit');
  await expect(unit(page, 'Next token')).toHaveText('logit');
});

test('comparisons', async ({ page }) => {
  await page.getByTestId('tab-compare').click();
  const tile = 'activation, mean over tile';
  const panel = (name: string): Locator =>
    page.getByRole('region', { name, exact: true }).getByRole('paragraph');
  await expect(panel('A, step 30: L1')).toHaveText(tile);
  await expect(panel('A − B: L1')).toHaveText(`A − B, ${tile}`);
  await expect(panel('A − B: layers × tokens')).toHaveText(`A − B, ${tile}, mean over tiles`);
  await show(page, 'HiddenStates · stats');
  await expect(unit(page, 'Layer 1: statistics')).toHaveText('activation');
  await expect(page.getByTestId('compare-stat')).toHaveValue('rms');
  await expect(unit(page, 'All layers')).toHaveText('activation');
  await page.getByTestId('compare-stat').selectOption('zeros');
  await expect(unit(page, 'All layers')).toHaveText('fraction');
  await expect(unit(page, 'A, step 30: histogram')).toHaveText('count by |activation|');
});
