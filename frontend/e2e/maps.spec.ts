import { expect, type Page } from '@playwright/test';
import { kBroken, kTiles, kLayers, kTokens, test } from './recorded.ts';
import {
  advance,
  digits,
  hoverLayer,
  hoverTile,
  idle,
  kSmoke,
  open,
  pixels,
  spotOf,
  tipValue,
} from './support.ts';

test('curves and both maps show data, and follow the run', kSmoke, async ({ page, recorded }) => {
  await open(page, recorded);
  for (const name of ['layer-map', 'tile-map']) {
    expect((await pixels(page.getByTestId(name))).colors).toBeGreaterThan(50);
  }
  for (const canvas of await page.locator('.uplot canvas').all()) {
    expect((await pixels(canvas)).colors).toBeGreaterThan(20);
  }
  const readout = page.getByTestId('loss-readout');
  await expect(readout).toContainText(
    `valid ${recorded.expected.scalar('valid_loss')[19].toPrecision(4)}`,
  );
  expect(await readout.evaluate((e) => e.scrollWidth - e.clientWidth), 'cut off').toBe(0);
  const before = await page.getByTestId('tile-map').screenshot();
  await advance(page, recorded, 3);
  expect(before.equals(await page.getByTestId('tile-map').screenshot())).toBe(false);
  await expect(page.getByTestId('step')).toHaveText(/33/);
});

test(
  'the value under the cursor is the value that was sent',
  kSmoke,
  async ({ page, recorded }) => {
    await open(page, recorded);
    await advance(page, recorded);
    for (const [tile, token] of [
      [0, 0],
      [5, 17],
      [7, 31],
    ] as const) {
      await hoverTile(page, tile, token, kTiles, kTokens);
      expect(await tipValue(page)).toBe(digits(recorded.expected.tile(1, 31, token, tile)));
    }
    await hoverLayer(page, 3, 22, kLayers, kTokens);
    const tiles = Array.from({ length: kTiles }, (_, tile) =>
      recorded.expected.tile(3, 31, 22, tile),
    );
    const sum = tiles.reduce((total, each) => total + each, 0);
    expect(await tipValue(page)).toBeCloseTo(sum / kTiles, 6);
    await page.getByRole('button', { name: 'max |x|' }).click();
    await hoverLayer(page, 3, 22, kLayers, kTokens);
    expect(await tipValue(page)).toBe(digits(Math.max(...tiles.map(Math.abs))));
  },
);

test('the tooltip names the cell: text, layer, position, columns, step', async ({
  page,
  recorded,
}) => {
  await open(page, recorded);
  await hoverTile(page, 5, 7, kTiles, kTokens);
  const tip = page.getByTestId('tip');
  const letter = recorded.expected.mark(30, 7);
  await expect(tip.locator('mark')).toHaveText(letter);
  await expect(tip).toContainText('5, columns 40–47');
  await expect(tip).toContainText(`position 7, id ${recorded.expected.token(30, 7)}`);
  await expect(tip).toContainText('HiddenStates');
  await expect(page.getByTestId('token-strip').locator('mark')).toHaveText(letter);
});

test('point and layer are chosen by select, keys and click', async ({ page, recorded }) => {
  await open(page, recorded);
  await page.getByTestId('layer').selectOption('3');
  await idle(page);
  await hoverTile(page, 6, 30, kTiles, kTokens);
  expect(await tipValue(page)).toBe(digits(recorded.expected.tile(3, 30, 30, 6)));
  await page.locator('body').press('ArrowDown');
  await expect(page.getByTestId('layer')).toHaveValue('4');
  await page.locator('body').press('ArrowDown');
  await expect(page.getByTestId('layer')).toHaveValue('4');
  await page.locator('body').press(']');
  await expect(page.getByTestId('point')).toHaveValue('MLP1');
  await idle(page);
  await hoverTile(page, 2, 30, 4, kTokens);
  expect(await tipValue(page)).toBe(digits(recorded.expected.values('mlp', 4, 30)[30 * 4 + 2]));
  const map = page.getByTestId('layer-map');
  await map.click({ position: await spotOf(map, 1, 16, 4, kTokens) });
  await expect(page.getByTestId('layer')).toHaveValue('2');
  expect(new URL(page.url()).search).toMatch(/point=MLP1/);
});

/** Every canvas of the page, pixel by pixel. */
function pictures(page: Page): Promise<string[]> {
  return page.evaluate(() =>
    [...document.querySelectorAll('canvas')].map((each) => each.toDataURL()),
  );
}

test('the address holds the view: a copy of it shows the same', async ({
  page,
  recorded,
  context,
}) => {
  await open(page, recorded);
  await page.getByTestId('point').selectOption('MLP1');
  await page.getByTestId('layer').selectOption('2');
  await page.getByRole('button', { name: 'max |x|' }).click();
  await page.getByRole('button', { name: '99 %' }).click();
  await page.getByRole('button', { name: 'Lock the scale of the tile map' }).click();
  await page.getByTestId('smoothing').fill('0.9');
  await idle(page);
  await page.mouse.move(600, 2);
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  await idle(page);
  const original = await pictures(page);
  const copy = await context.newPage();
  await copy.goto(page.url());
  await expect(copy.getByTestId('tile-map')).toBeVisible();
  await idle(copy);
  expect(await pictures(copy)).toEqual(original);
  await expect(copy.getByTestId('smoothing')).toHaveValue('0.9');
  await expect(copy.getByTestId('layer')).toHaveValue('2');
});

test('a step of the past can be held while the run goes on', async ({ page, recorded }) => {
  await open(page, recorded);
  await advance(page, recorded, 4);
  await page.locator('body').press('ArrowLeft');
  await page.locator('body').press('ArrowLeft');
  await expect(page.getByTestId('shown-step')).toHaveText('step 32');
  await recorded.advance();
  await idle(page);
  await expect(page.getByTestId('shown-step')).toHaveText('step 32');
  await hoverTile(page, 3, 3, kTiles, kTokens);
  expect(await tipValue(page)).toBe(digits(recorded.expected.tile(1, 32, 3, 3)));
  await page.locator('body').press('f');
  await expect(page.getByTestId('shown-step')).toHaveText('step 35');
});

test('a locked scale stays while the data change', async ({ page, recorded }) => {
  await open(page, recorded);
  const legend = page.getByLabel('Colour legend of the tile map');
  await page.getByRole('button', { name: 'Lock the scale of the tile map' }).click();
  const before = await legend.locator('.scale').innerText();
  await expect(legend).not.toContainText('clipped');
  await page.getByTestId('layer').selectOption('4');
  await idle(page);
  expect(await legend.locator('.scale').innerText()).toBe(before);
  // All values count, however few pixels show them.
  const { expected } = recorded;
  const limit = Math.max(...expected.values('tiles', 1, 30).map(Math.abs));
  const isBeyond = (value: number): boolean => Math.abs(value) > limit * 1.00001;
  const beyond = expected.values('tiles', 4, 30).filter(isBeyond);
  expect(beyond.length).toBeGreaterThan(0);
  await expect(legend).toContainText(`clipped ${beyond.length}`);
  await page.setViewportSize({ width: 900, height: 600 });
  await idle(page);
  await expect(legend).toContainText(`clipped ${beyond.length}`);
});

test.describe('values that are not finite', () => {
  test.use({ firstStep: kBroken.step });

  test('have reserved colours and are counted', async ({ page, recorded }) => {
    await open(page, recorded);
    await page.getByTestId('layer').selectOption('2');
    await idle(page);
    const legend = page.getByLabel('Colour legend of the tile map');
    await expect(legend.getByTestId('count-NaN')).toHaveText('NaN 1');
    await expect(legend.getByTestId('count-+Inf')).toHaveText('+Inf 1');
    await expect(legend.getByTestId('count-−Inf')).toHaveText('−Inf 1');
    const map = page.getByTestId('tile-map');
    const colorAt = async (token: number): Promise<string> =>
      (await pixels(map, await spotOf(map, 0, token, kTiles, kTokens))).at;
    expect(await colorAt(kBroken.nan)).toBe('230,0,200');
    expect(await colorAt(kBroken.inf)).toBe('255,225,0');
    expect(await colorAt(kBroken.minusInf)).toBe('0,190,90');
    await hoverTile(page, 0, kBroken.nan, kTiles, kTokens);
    await expect(page.getByTestId('tip-value')).toHaveText('NaN');
    await page.screenshot({ path: 'test-results/nan.png' });
  });
});

test('a map is walked with the keyboard', async ({ page, recorded }) => {
  await open(page, recorded);
  await page.getByRole('application').nth(1).focus();
  for (const key of ['ArrowDown', 'ArrowDown', 'ArrowRight']) await page.keyboard.press(key);
  expect(await tipValue(page)).toBe(digits(recorded.expected.tile(1, 30, 1, 2)));
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('tip')).toHaveCount(0);
});
