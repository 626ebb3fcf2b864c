import { expect, type Locator } from '@playwright/test';
import {
  attentionAt,
  kLayers,
  kSequence,
  kStatsWidth,
  projectionAt,
  statAt,
  tokenAt,
} from './fake_data.ts';
import { FakeHub } from './fake_hub.ts';
import {
  advance,
  choose,
  digits,
  idle,
  kDist,
  kSmoke,
  numbersOf,
  open,
  pixels,
  spotOf,
  test,
  tipValue,
  watch,
} from './support.ts';

// The views of the Tensors tab beyond one layer at one step.

const kHidden = 7;

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
  test('stand side by side with one colour range, or with own ranges', async ({ page, hub }) => {
    await open(page, hub);
    await choose(page, 'all layers');
    expect(new URL(page.url()).search).toContain('maps=all');
    const maps = page.getByTestId('layer-maps');
    await expect(maps.getByRole('button')).toHaveCount(kLayers);
    const third = maps.locator('canvas').nth(2);
    for (const canvas of await maps.locator('canvas').all()) {
      expect((await pixels(canvas)).colors).toBeGreaterThan(50);
    }
    const spot = await smallSpot(third, [17, 70], [64, kSequence]);
    await third.hover({ position: spot });
    expect(await tipValue(page)).toBe(digits(hub.value(kHidden, 3, 120, 70, 17, 64)));
    const letter = String.fromCharCode(tokenAt(120, 70));
    await expect(page.getByTestId('tip').locator('mark')).toHaveText(letter);
    await expect(page.getByTestId('token-strip').locator('mark')).toHaveText(letter);

    const limits = Array.from({ length: kLayers }, (_, i) =>
      Math.max(...numbersOf(hub, i + 1, 120).map(Math.abs)),
    );
    const legend = page.getByLabel('Colour legend of the maps of the layers');
    const most = Math.max(...limits);
    await expect(legend.locator('.high')).toHaveText(most.toPrecision(3));
    await expect(legend.locator('.low')).toHaveText(`−${most.toPrecision(3)}`);
    // The third layer's largest is smaller than the largest of all, so its colours grow stronger.
    const largest = numbersOf(hub, 3, 120).map(Math.abs).indexOf(limits[2]);
    const cell = [largest % 64, Math.floor(largest / 64)] as const;
    const shared = await smallColor(third, cell, [64, kSequence]);
    await choose(page, 'own ranges');
    expect(await smallColor(third, cell, [64, kSequence])).not.toBe(shared);
    for (const [i, limit] of limits.entries()) {
      await expect(maps.getByRole('button').nth(i)).toContainText(`±${limit.toPrecision(3)}`);
    }
  });

  test('a click opens a layer, and arrows go from one to the next', async ({ page, hub }) => {
    await open(page, hub);
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
    test.use({
      options: {
        poison: (layer: number, token: number, tile: number): number | undefined =>
          layer === 2 && tile < 8 && token === 100 ? Number.NaN : undefined,
      },
    });

    test('count and show them', async ({ page, hub }) => {
      await open(page, hub);
      await choose(page, 'all layers');
      const legend = page.getByLabel('Colour legend of the maps of the layers');
      await expect(legend.getByTestId('count-NaN')).toHaveText('NaN 8');
      const second = page.getByTestId('layer-maps').locator('canvas').nth(1);
      expect(await smallColor(second, [4, 100], [64, kSequence])).toBe('230,0,200');
    });
  });
});

test('attention: all heads beside the large one', kSmoke, async ({ page, hub }) => {
  watch(hub, { point: 'RawAttentionScore', compressor: { kind: 'none' }, tokens: [0, 48] });
  await open(page, hub, 'attention-map');
  const heads = page.getByTestId('head-maps');
  await expect(heads.getByRole('button')).toHaveCount(4);
  const third = heads.locator('canvas').nth(2);
  expect(await smallColor(third, [40, 75], [48, 96])).toBe('246,247,248');
  expect(await smallColor(third, [40, 12], [48, 96])).not.toBe('246,247,248');
  await third.hover({ position: await smallSpot(third, [40, 12], [48, 96]) });
  const keys = [32, 33, 34].map((key) => attentionAt(1, 2, 40, key, 120));
  expect(await tipValue(page)).toBe(digits(Math.max(...keys)));
  await expect(page.getByTestId('tip')).toContainText('position 40');
  await expect(page.getByTestId('tip').locator('mark')).toHaveText(
    String.fromCharCode(...[32, 33, 34].map((key) => tokenAt(120, key))),
  );
  await third.hover({ position: await smallSpot(third, [40, 13], [48, 96]) });
  const next = [35, 36, 37].map((key) => attentionAt(1, 2, 40, key, 120));
  expect(await tipValue(page)).toBe(digits(Math.max(...next)));
  await expect(page.getByTestId('tip')).toContainText('position 35–37');
  await expect(page.getByTestId('tip').locator('mark')).toHaveText(
    String.fromCharCode(...[35, 36, 37].map((key) => tokenAt(120, key))),
  );
  await heads.getByRole('button').nth(2).click();
  await expect(page.getByTestId('head')).toHaveValue('2');
  await idle(page);
  const map = page.getByTestId('attention-map');
  await map.hover({ position: await spotOf(map, 40, 34, 48, kSequence) });
  expect(await tipValue(page)).toBe(digits(attentionAt(1, 2, 40, 34, 120)));
  await heads.getByRole('button').nth(2).focus();
  await page.keyboard.press('ArrowRight');
  await expect(page.getByTestId('head')).toHaveValue('3');
  await expect(page.getByRole('heading', { name: 'Layer 1, head 3' })).toBeVisible();
});

// The second number of the second row.
const kRms = kStatsWidth + 1;

test.describe('statistics of a run that explodes', () => {
  test.use({
    options: {
      stat: (layer: number, step: number, index: number): number | undefined => {
        if (layer === 3 && step >= 127 && index === 7) return 12_345;
        return layer === 2 && step === 126 && index === kRms ? 9 * statAt(2, 125, kRms) : undefined;
      },
    },
  });

  test('name the layer that left its range first', async ({ page, hub }) => {
    hub.firstKept = hub.step;
    watch(hub, { point: 'HiddenStates', compressor: { kind: 'stats' } });
    await open(page, hub, 'stats-table');
    await advance(page, hub, 5);
    await expect(page.getByTestId('departure')).toHaveText('no layer was out of range');
    await advance(page, hub, 3);
    const departure = page.getByTestId('departure');
    await expect(departure).toContainText('L2 at step 126');
    await expect(departure).toContainText(/rms 9\.0\d times its median/);
    await page.getByTestId('stat').selectOption('bad');
    await expect(page.getByTestId('layer-readout')).toContainText('L3 12.3\u00a0k');
    await expect(page.getByTestId('stats-table')).toContainText('12.3\u00a0k');
    await expect(page.getByTestId('layer-readout')).toContainText('L2 0');
    await departure.getByRole('button').click();
    await expect(page.getByTestId('shown-step')).toHaveText('step 126');
    await expect(page.getByTestId('layer')).toHaveValue('2');
  });

  test('a histogram ridge over the steps, or over the layers', async ({ page, hub }) => {
    hub.firstKept = hub.step;
    watch(hub, { point: 'HiddenStates', compressor: { kind: 'stats' } });
    await open(page, hub, 'stats-table');
    await advance(page, hub, 4);
    const ridge = page.getByTestId('ridge');
    await expect(ridge).toHaveAttribute('aria-label', /Layer 1 over the steps, 5 rows of 48 bins/);
    expect((await pixels(ridge.locator('canvas'))).colors).toBeGreaterThan(20);
    await choose(page, 'full range');
    const box = await ridge.boundingBox();
    if (box === null) throw new Error('no ridge');
    // The foot of the lowest row: the newest step. The middle of bin 31.
    const x = 44 + ((31 + 0.5) / 48) * (box.width - 44);
    await ridge.hover({ position: { x, y: box.height - 4 } });
    const count = (statAt(1, 124, 41) / 1000).toPrecision(3);
    await expect(page.getByTestId('ridge-bin')).toHaveText(`step 124 · 2^−1 ≤ |x| < 1: ${count} k`);
    await choose(page, 'layers');
    await expect(page.getByRole('heading', { name: 'All layers at step 124' })).toBeVisible();
    await expect(ridge).toHaveAttribute('aria-label', /4 rows of 48 bins/);
    expect(new URL(page.url()).search).toContain('ridge=layers');
  });
});

const kEvil = { kind: 'projection', vectors: ['evil'] };

test('the text of a row is coloured by its projections', async ({ page, hub }) => {
  watch(hub, { point: 'HiddenStates', compressor: kEvil });
  await open(page, hub, 'projection-map');
  await page.getByTestId('layer').selectOption('3');
  await idle(page);
  const text = page.getByTestId('token-colors');
  const tokens = text.locator('span');
  await expect(tokens).toHaveCount(kSequence);
  const letters = Array.from({ length: 10 }, (_, i) => String.fromCharCode(tokenAt(120, 20 + i)));
  const shown = await tokens.evaluateAll((spans) => spans.slice(20, 30).map((s) => s.textContent));
  expect(shown.join('')).toBe(letters.join('').replaceAll('\n', '⏎\n'));
  const grounds = await tokens.evaluateAll((spans) =>
    spans.map((span) => (span as HTMLElement).style.background),
  );
  expect(new Set(grounds).size).toBeGreaterThan(5);
  // Equal values have equal colours on the text and on the map.
  const map = page.getByTestId('projection-map');
  const { at } = await pixels(map, await spotOf(map, 2, 25, kLayers));
  expect(grounds[25].match(/\d+/g)?.join(',')).toBe(at);
  await tokens.nth(25).hover();
  expect(await tipValue(page)).toBe(digits(projectionAt(3, 120, 0, 25, 0)));
  await page.mouse.move(5, 5);
  await text.focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowRight');
  expect(await tipValue(page)).toBe(digits(projectionAt(3, 120, 0, 1, 0)));
});

test('of a monitored prompt the text is known without its tokens', async ({ page, hub }) => {
  watch(hub, { point: 'HiddenStates', prompts: 'probes', compressor: kEvil });
  await open(page, hub, 'projection-map');
  await expect(page.getByTestId('token-colors')).toHaveText('Once upon a time');
});

// Pictures for review: test-results/view-*.png.
for (const colorScheme of ['dark', 'light'] as const) {
  test(`the views in ${colorScheme}`, async ({ browser }) => {
    test.setTimeout(120_000);
    const hub = new FakeHub({ dist: kDist, firstStep: 178 });
    watch(
      hub,
      { point: 'HiddenStates', compressor: { kind: 'tile', tiles: 64 } },
      { point: 'HiddenStates', compressor: kEvil },
      { point: 'HiddenStates', compressor: { kind: 'stats' } },
      { point: 'RawAttentionScore', tokens: [0, 48] },
    );
    await hub.start();
    const page = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 720 } });
    await open(page, hub);
    await advance(page, hub, 16);
    const shoot = async (name: string): Promise<void> => {
      await page.mouse.move(5, 5);
      await idle(page);
      await page.screenshot({ path: `test-results/view-${name}-${colorScheme}.png` });
    };
    await choose(page, 'all layers');
    await shoot('all');
    await choose(page, 'over steps');
    await shoot('over');
    await page.getByTestId('point').selectOption('RawAttentionScore');
    await expect(page.getByTestId('head-maps')).toBeVisible();
    await shoot('heads');
    await page.getByTestId('point').selectOption('HiddenStates · stats');
    await expect(page.getByTestId('ridge')).toBeVisible();
    await shoot('stats');
    await page.getByTestId('point').selectOption('HiddenStates · projection');
    await page.getByTestId('layer').selectOption('1');
    await shoot('projection');
    await page.close();
    await hub.stop();
  });
}
