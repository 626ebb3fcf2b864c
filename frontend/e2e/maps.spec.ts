import { expect, type Page } from '@playwright/test';
import { kSequence, tokenAt } from './fake_data.ts';
import {
  advance,
  hoverLayer,
  hoverTile,
  idle,
  kSmoke,
  numbersOf,
  open,
  pixels,
  spotOf,
  test,
  tipValue,
} from './support.ts';

const kHidden = 7;
const kMlp1 = 4;

test('curves and both maps show data, and follow the run', kSmoke, async ({ page, hub }) => {
  await open(page, hub);
  for (const name of ['layer-map', 'tile-map']) {
    expect((await pixels(page.getByTestId(name))).colors).toBeGreaterThan(50);
  }
  for (const canvas of await page.locator('.uplot canvas').all()) {
    expect((await pixels(canvas)).colors).toBeGreaterThan(20);
  }
  const readout = page.getByTestId('loss-readout');
  await expect(readout).toContainText('valid 2.268');
  expect(await readout.evaluate((e) => e.scrollWidth - e.clientWidth), 'cut off').toBe(0);
  const before = await page.getByTestId('tile-map').screenshot();
  await advance(page, hub, 3);
  expect(before.equals(await page.getByTestId('tile-map').screenshot())).toBe(false);
  await expect(page.getByTestId('step')).toHaveText(/123/);
});

test('the value under the cursor is the value that was sent', kSmoke, async ({ page, hub }) => {
  await open(page, hub);
  await advance(page, hub);
  for (const [tile, token] of [
    [0, 0],
    [17, 100],
    [63, 255],
  ] as const) {
    await hoverTile(page, tile, token);
    const sent = hub.value(kHidden, 1, hub.step, token, tile, 64);
    expect(await tipValue(page)).toBe(Number(sent.toPrecision(7)));
  }
  await hoverLayer(page, 3, 42);
  let sum = 0;
  for (let tile = 0; tile < 64; tile++) sum += hub.value(kHidden, 3, hub.step, 42, tile, 64);
  expect(await tipValue(page)).toBeCloseTo(sum / 64, 6);
  await page.getByRole('button', { name: 'max |x|' }).click();
  await hoverLayer(page, 3, 42);
  let largest = 0;
  for (let tile = 0; tile < 64; tile++) {
    largest = Math.max(largest, Math.abs(hub.value(kHidden, 3, hub.step, 42, tile, 64)));
  }
  expect(await tipValue(page)).toBe(Number(largest.toPrecision(7)));
});

test('the tooltip names the cell: text, layer, position, columns, step', async ({ page, hub }) => {
  await open(page, hub);
  await hoverTile(page, 5, 70);
  const tip = page.getByTestId('tip');
  const letter = String.fromCharCode(tokenAt(120, 70));
  await expect(tip.locator('mark')).toHaveText(letter);
  await expect(tip).toContainText('5, columns 20–23');
  await expect(tip).toContainText(`position 70, id ${tokenAt(120, 70)}`);
  await expect(tip).toContainText('HiddenStates');
  await expect(page.getByTestId('token-strip').locator('mark')).toHaveText(letter);
});

test('point and layer are chosen by select, keys and click', async ({ page, hub }) => {
  await open(page, hub);
  await page.getByTestId('layer').selectOption('3');
  await idle(page);
  await hoverTile(page, 9, 30);
  expect(await tipValue(page)).toBe(Number(hub.value(kHidden, 3, 120, 30, 9, 64).toPrecision(7)));
  await page.locator('body').press('ArrowDown');
  await expect(page.getByTestId('layer')).toHaveValue('4');
  await page.locator('body').press('ArrowDown');
  await expect(page.getByTestId('layer')).toHaveValue('4');
  await page.locator('body').press(']');
  await expect(page.getByTestId('point')).toHaveValue('MLP1');
  await idle(page);
  await hoverTile(page, 9, 30, 32);
  expect(await tipValue(page)).toBe(Number(hub.value(kMlp1, 4, 120, 30, 9, 32).toPrecision(7)));
  const map = page.getByTestId('layer-map');
  await map.click({ position: await spotOf(map, 1, 128, 4) });
  await expect(page.getByTestId('layer')).toHaveValue('2');
  expect(new URL(page.url()).search).toMatch(/point=MLP1/);
});

/** Every canvas of the page, pixel by pixel. */
function pictures(page: Page): Promise<string[]> {
  return page.evaluate(() =>
    [...document.querySelectorAll('canvas')].map((each) => each.toDataURL()),
  );
}

test('the address holds the view: a copy of it shows the same', async ({ page, hub, context }) => {
  await open(page, hub);
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

test('a step of the past can be held while the run goes on', async ({ page, hub }) => {
  await open(page, hub);
  await advance(page, hub, 4);
  await page.locator('body').press('ArrowLeft');
  await page.locator('body').press('ArrowLeft');
  await expect(page.getByTestId('shown-step')).toHaveText('step 122');
  hub.advance();
  await idle(page);
  await expect(page.getByTestId('shown-step')).toHaveText('step 122');
  await hoverTile(page, 3, 3);
  expect(await tipValue(page)).toBe(Number(hub.value(kHidden, 1, 122, 3, 3, 64).toPrecision(7)));
  await page.locator('body').press('f');
  await expect(page.getByTestId('shown-step')).toHaveText('step 125');
});

test('a locked scale stays while the data change', async ({ page, hub }) => {
  await open(page, hub);
  const legend = page.getByLabel('Colour legend of the tile map');
  await page.getByRole('button', { name: 'Lock the scale of the tile map' }).click();
  const before = await legend.locator('.scale').innerText();
  await expect(legend).not.toContainText('clipped');
  await page.getByTestId('layer').selectOption('4');
  await idle(page);
  expect(await legend.locator('.scale').innerText()).toBe(before);
  // All values count, however few pixels show them.
  const limit = Math.max(...numbersOf(hub, 1, 120).map(Math.abs));
  const beyond = numbersOf(hub, 4, 120).filter((value) => Math.abs(value) > limit * 1.00001);
  await expect(legend).toContainText(`clipped ${beyond.length}`);
  await page.setViewportSize({ width: 900, height: 600 });
  await idle(page);
  await expect(legend).toContainText(`clipped ${beyond.length}`);
});

test.describe('values that are not finite', () => {
  test.use({
    options: {
      poison: (layer: number, token: number, tile: number): number | undefined => {
        if (layer !== 2 || tile >= 8) return undefined;
        if (token === 100) return Number.NaN;
        if (token === 120) return Number.POSITIVE_INFINITY;
        return token === 140 ? Number.NEGATIVE_INFINITY : undefined;
      },
    },
  });

  test('have reserved colours and are counted', async ({ page, hub }) => {
    await open(page, hub);
    await page.getByTestId('layer').selectOption('2');
    await idle(page);
    const legend = page.getByLabel('Colour legend of the tile map');
    await expect(legend.getByTestId('count-NaN')).toHaveText('NaN 8');
    await expect(legend.getByTestId('count-+Inf')).toHaveText('+Inf 8');
    await expect(legend.getByTestId('count-−Inf')).toHaveText('−Inf 8');
    const map = page.getByTestId('tile-map');
    const colorAt = async (token: number): Promise<string> =>
      (await pixels(map, await spotOf(map, 4, token, 64))).at;
    expect(await colorAt(100)).toBe('230,0,200');
    expect(await colorAt(120)).toBe('255,225,0');
    expect(await colorAt(140)).toBe('0,190,90');
    await hoverTile(page, 4, 100);
    await expect(page.getByTestId('tip-value')).toHaveText('NaN');
    await page.screenshot({ path: 'test-results/nan.png' });
  });
});

test('a map is walked with the keyboard', async ({ page, hub }) => {
  await open(page, hub);
  await page.getByRole('application').nth(1).focus();
  for (const key of ['ArrowDown', 'ArrowDown', 'ArrowRight']) await page.keyboard.press(key);
  expect(await tipValue(page)).toBe(Number(hub.value(kHidden, 1, 120, 1, 2, 64).toPrecision(7)));
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('tip')).toHaveCount(0);
  expect(kSequence).toBe(256);
});
