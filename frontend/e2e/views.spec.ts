import { expect, type Locator, type Page } from '@playwright/test';
import { kBroken, kLayers, kQueries, kSpike, kTiles, kTokens, test } from './recorded.ts';
import {
  advance,
  choose,
  digits,
  idle,
  kSmoke,
  open,
  pixels,
  spotOf,
  tipValue,
} from './support.ts';

// The views of the Tensors tab beyond one layer at one step.

async function show(page: Page, point: string, testid: string): Promise<void> {
  await page.getByTestId('point').selectOption(point);
  await expect(page.getByTestId(testid)).toBeVisible();
  await idle(page);
}

/** The middle of a cell of a small map, in the canvas' own CSS pixels. */
async function smallSpot(
  canvas: Locator,
  [row, col]: readonly [number, number],
  [rows, cols]: readonly [number, number],
): Promise<{ x: number; y: number }> {
  const box = await canvas.boundingBox();
  if (box === null) throw new Error('the map is not on the page');
  return { x: ((col + 0.5) / cols) * box.width, y: ((row + 0.5) / rows) * box.height };
}

/** The colour of a cell of a small map as "r,g,b". */
function smallColor(
  canvas: Locator,
  [row, col]: readonly [number, number],
  [rows, cols]: readonly [number, number],
): Promise<string> {
  const place = { x: (col + 0.5) / cols, y: (row + 0.5) / rows };
  return canvas.evaluate((element, { x, y }) => {
    const { width, height } = element as HTMLCanvasElement;
    const context = (element as HTMLCanvasElement).getContext('2d');
    if (context === null) throw new Error('no 2D canvas');
    const at = context.getImageData(Math.floor(x * width), Math.floor(y * height), 1, 1);
    return [...at.data.slice(0, 3)].join(',');
  }, place);
}

test.describe('all layers', () => {
  test('stand side by side with one colour range, or with own ranges', async ({
    page,
    recorded,
  }) => {
    await open(page, recorded);
    await choose(page, 'all layers');
    const { expected } = recorded;
    expect(new URL(page.url()).search).toContain('maps=all');
    const maps = page.getByTestId('layer-maps');
    await expect(maps.getByRole('button')).toHaveCount(kLayers);
    const third = maps.locator('canvas').nth(2);
    for (const canvas of await maps.locator('canvas').all()) {
      expect((await pixels(canvas)).colors).toBeGreaterThan(50);
    }
    const spot = await smallSpot(third, [5, 7], [kTiles, kTokens]);
    await third.hover({ position: spot });
    expect(await tipValue(page)).toBe(digits(expected.tile(3, 30, 7, 5)));
    const letter = expected.mark(30, 7);
    await expect(page.getByTestId('tip').locator('mark')).toHaveText(letter);
    await expect(page.getByTestId('token-strip').locator('mark')).toHaveText(letter);

    const limits = Array.from({ length: kLayers }, (_, i) =>
      Math.max(...expected.values('tiles', i + 1, 30).map(Math.abs)),
    );
    const legend = page.getByLabel('Colour legend of the maps of the layers');
    const most = Math.max(...limits);
    await expect(legend.locator('.high')).toHaveText(most.toPrecision(3));
    await expect(legend.locator('.low')).toHaveText(`−${most.toPrecision(3)}`);
    // The first layer's largest is smaller than the largest of all, so its colours grow stronger.
    expect(limits[0]).toBeLessThan(most);
    const first = maps.locator('canvas').first();
    const largest = expected.values('tiles', 1, 30).map(Math.abs).indexOf(limits[0]);
    const cell = [largest % kTiles, Math.floor(largest / kTiles)] as const;
    const shared = await smallColor(first, cell, [kTiles, kTokens]);
    await choose(page, 'own ranges');
    expect(await smallColor(first, cell, [kTiles, kTokens])).not.toBe(shared);
    for (const [i, limit] of limits.entries()) {
      await expect(maps.getByRole('button').nth(i)).toContainText(`±${limit.toPrecision(3)}`);
    }
  });

  test('a click opens a layer, and arrows go from one to the next', async ({ page, recorded }) => {
    await open(page, recorded);
    await choose(page, 'all layers');
    const maps = page.getByTestId('layer-maps');
    await maps.getByRole('button').first().focus();
    await page.keyboard.press('ArrowRight');
    await expect(maps.getByRole('button').nth(1)).toBeFocused();
    await expect(page.getByTestId('layer')).toHaveValue('2');
    await page.keyboard.press('ArrowDown');
    await expect(page.getByTestId('layer')).toHaveValue('4');
    await maps.getByRole('button').nth(2).click();
    await expect(page.getByRole('heading', { name: 'Layer 3: tiles × tokens' })).toBeVisible();
    await expect(page.getByTestId('layer')).toHaveValue('3');
  });

  test.describe('with values that are not finite', () => {
    test.use({ firstStep: kBroken.step });

    test('count and show them', async ({ page, recorded }) => {
      await open(page, recorded);
      await choose(page, 'all layers');
      const legend = page.getByLabel('Colour legend of the maps of the layers');
      // One tile of the second layer, and all that the next layers make of it.
      const count = [1, 2, 3, 4]
        .flatMap((layer) => [...recorded.expected.values('tiles', layer, kBroken.step)])
        .filter(Number.isNaN).length;
      await expect(legend.getByTestId('count-NaN')).toHaveText(`NaN ${count}`);
      const second = page.getByTestId('layer-maps').locator('canvas').nth(1);
      expect(await smallColor(second, [0, kBroken.nan], [kTiles, kTokens])).toBe('230,0,200');
    });
  });
});

test('attention: all heads beside the large one', kSmoke, async ({ page, recorded }) => {
  const { expected } = recorded;
  await open(page, recorded);
  await show(page, 'RawAttentionScore', 'attention-map');
  const heads = page.getByTestId('head-maps');
  await expect(heads.getByRole('button')).toHaveCount(4);
  const third = heads.locator('canvas').nth(2);
  const cells = [kQueries, kTokens] as const;
  // A query sees no later key.
  expect(await smallColor(third, [12, 25], cells)).toBe('246,247,248');
  expect(await smallColor(third, [12, 0], cells)).not.toBe('246,247,248');
  await third.hover({ position: await smallSpot(third, [12, 9], cells) });
  expect(await tipValue(page)).toBe(digits(expected.attention(1, 2, 12, 9, 30)));
  await expect(page.getByTestId('tip')).toContainText('position 12');
  await expect(page.getByTestId('tip').locator('mark')).toHaveText(expected.mark(30, 9));
  await heads.getByRole('button').nth(2).click();
  await expect(page.getByTestId('head')).toHaveValue('2');
  await idle(page);
  const map = page.getByTestId('attention-map');
  await map.hover({ position: await spotOf(map, 12, 9, kQueries, kTokens) });
  expect(await tipValue(page)).toBe(digits(expected.attention(1, 2, 12, 9, 30)));
  await heads.getByRole('button').nth(2).focus();
  await page.keyboard.press('ArrowRight');
  await expect(page.getByTestId('head')).toHaveValue('3');
  await expect(page.getByRole('heading', { name: 'Layer 1, head 3' })).toBeVisible();
});

test.describe('statistics', () => {
  test('name the layer that left its range first', async ({ page, recorded }) => {
    const { expected } = recorded;
    await open(page, recorded);
    await show(page, 'HiddenStates · stats', 'stats-table');
    await advance(page, recorded, 2);
    const departure = page.getByTestId('departure');
    await expect(departure).toHaveText('no layer was out of range');
    for (let step = 33; step <= kBroken.step; step++) await recorded.advance();
    await expect(page.getByTestId('shown-step')).toHaveText(`step ${kBroken.step}`);
    await expect(departure).toContainText(`L2 at step ${kSpike}`);
    await expect(departure).toContainText(/rms \d+\.\d+ times its median/);
    await page.getByTestId('stat').selectOption('bad');
    const bad = [7, 8, 9].reduce((sum, at) => sum + expected.stat(2, kBroken.step, at), 0);
    expect(bad).toBeGreaterThan(0);
    await expect(page.getByTestId('layer-readout')).toContainText(`L2 ${bad}`);
    await expect(page.getByTestId('layer-readout')).toContainText('L1 0');
    await departure.getByRole('button').click();
    await expect(page.getByTestId('shown-step')).toHaveText(`step ${kSpike}`);
    await expect(page.getByTestId('layer')).toHaveValue('2');
  });

  test('a histogram ridge over the steps, or over the layers', async ({ page, recorded }) => {
    await open(page, recorded);
    await show(page, 'HiddenStates · stats', 'stats-table');
    await advance(page, recorded, 4);
    const ridge = page.getByTestId('ridge');
    await expect(ridge).toHaveAttribute(
      'aria-label',
      /Layer 1 over the steps, \d+ rows of 48 bins/,
    );
    expect((await pixels(ridge.locator('canvas'))).colors).toBeGreaterThan(20);
    await choose(page, 'all');
    const box = await ridge.boundingBox();
    if (box === null) throw new Error('no ridge');
    // The foot of the lowest row: the newest step. The middle of bin 31.
    const x = 44 + ((31 + 0.5) / 48) * (box.width - 44);
    await ridge.hover({ position: { x, y: box.height - 4 } });
    const count = recorded.expected.stat(1, 34, 41);
    await expect(page.getByTestId('ridge-bin')).toHaveText(`step 34 · 2^−1 ≤ |x| < 1: ${count}`);
    await choose(page, 'layers');
    await expect(page.getByRole('heading', { name: 'All layers at step 34' })).toBeVisible();
    await expect(ridge).toHaveAttribute('aria-label', /4 rows of 48 bins/);
    expect(new URL(page.url()).search).toContain('ridge=layers');
  });
});

test('the text of a row is coloured by its projections', async ({ page, recorded }) => {
  const { expected } = recorded;
  await open(page, recorded);
  await show(page, 'HiddenStates · projection', 'projection-map');
  await page.getByTestId('layer').selectOption('3');
  await idle(page);
  const text = page.getByTestId('token-colors');
  const tokens = text.locator('span');
  await expect(tokens).toHaveCount(kTokens);
  const all = Array.from({ length: kTokens }, (_, at) => at);
  const shown = await tokens.evaluateAll((spans) => spans.map((s) => s.textContent));
  expect(shown.join('')).toBe(expected.letter(30, ...all).replaceAll('\n', '⏎\n'));
  const grounds = await tokens.evaluateAll((spans) =>
    spans.map((span) => (span as HTMLElement).style.background),
  );
  expect(new Set(grounds).size).toBeGreaterThan(5);
  // Equal values have equal colours on the text and on the map.
  const map = page.getByTestId('projection-map');
  const { at } = await pixels(map, await spotOf(map, 2, 25, kLayers, kTokens));
  expect(grounds[25].match(/\d+/g)?.join(',')).toBe(at);
  await tokens.nth(25).hover();
  expect(await tipValue(page)).toBe(digits(expected.projection(3, 30, 25)));
  await page.mouse.move(5, 5);
  await text.focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowRight');
  expect(await tipValue(page)).toBe(digits(expected.projection(3, 30, 1)));
});

test('of a monitored prompt the text is shown', async ({ page, recorded }) => {
  await open(page, recorded);
  await show(page, 'HiddenStates · probes · projection', 'projection-map');
  await expect(page.getByTestId('token-colors')).toHaveText('Once upon a time');
});

// Pictures for review: test-results/view-*.png.
for (const colorScheme of ['dark', 'light'] as const) {
  test(`the views in ${colorScheme}`, async ({ page, recorded }) => {
    await page.emulateMedia({ colorScheme });
    await open(page, recorded);
    const shoot = async (name: string): Promise<void> => {
      await page.mouse.move(5, 5);
      await idle(page);
      await page.screenshot({ path: `test-results/view-${name}-${colorScheme}.png` });
    };
    await choose(page, 'all layers');
    await shoot('all');
    await choose(page, 'over steps');
    await shoot('over');
    await show(page, 'RawAttentionScore', 'head-maps');
    await shoot('heads');
    await show(page, 'HiddenStates · stats', 'ridge');
    await shoot('stats');
    await show(page, 'HiddenStates · projection', 'projection-map');
    await shoot('projection');
  });
}
