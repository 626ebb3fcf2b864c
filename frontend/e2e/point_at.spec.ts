import { expect, type Page } from '@playwright/test';
import { kFull, kHeads, kLayers, kQueries, kTiles, kTokens, test } from './recorded.ts';
import {
  advance,
  axesOf,
  digits,
  hoverTile,
  idle,
  kSmoke,
  open,
  spotOf,
  tipValue,
} from './support.ts';

// Zooming into a map, and a cell that is held: by mouse and by keyboard, and in the address.

/** A number as the pin writes it. */
function pinned(value: number): string {
  return value.toPrecision(7).replace('-', '−');
}

function search(page: Page): URLSearchParams {
  return new URL(page.url()).searchParams;
}

/** Drags over the cells of the tile map, from the first to the second. */
async function drag(
  page: Page,
  from: readonly [row: number, col: number],
  to: readonly [row: number, col: number],
): Promise<void> {
  const map = page.getByTestId('tile-map');
  const box = await map.boundingBox();
  if (box === null) throw new Error('no map');
  const [a, b] = [
    await spotOf(map, ...from, kTiles, kTokens),
    await spotOf(map, ...to, kTiles, kTokens),
  ];
  await page.mouse.move(box.x + a.x, box.y + a.y);
  await page.mouse.down();
  await page.mouse.move(box.x + b.x - 3, box.y + b.y, { steps: 4 });
  await page.mouse.move(box.x + b.x, box.y + b.y);
  await page.mouse.up();
  await idle(page);
}

test('a map is zoomed by dragging, by the wheel and moved; a double click shows all', async ({
  page,
  recorded,
}) => {
  await open(page, recorded);
  await drag(page, [2, 12], [5, 27]);
  expect([search(page).get('cols'), search(page).get('rows')]).toEqual(['12-28', '2-6']);
  expect(search(page).get('pin')).toBeNull();
  const map = page.getByTestId('tile-map');
  await map.hover({ position: await spotOf(map, 3, 5, 4, 16) });
  expect(await tipValue(page)).toBe(digits(recorded.expected.tile(1, 30, 17, 5)));
  await page.mouse.wheel(0, -300);
  await expect.poll(async () => (await idle(page), search(page).get('cols'))).not.toBe('12-28');
  const [first, end] = (search(page).get('cols') ?? '').split('-').map(Number);
  expect(end - first).toBeLessThan(16);
  expect([first <= 17, 17 < end]).toEqual([true, true]);
  await page.keyboard.down('Shift');
  await page.mouse.wheel(0, 400);
  await page.keyboard.up('Shift');
  await expect
    .poll(async () => (await idle(page), Number(search(page).get('cols')?.split('-')[0])))
    .toBeGreaterThan(first);
  await map.dblclick({ position: await spotOf(map, 2, 8, 4, 16) });
  await idle(page);
  expect([...search(page).keys()]).not.toContain('cols');
  expect(search(page).get('pin'), 'a double click pins nothing').toBeNull();
});

test(
  'a click pins a cell: its value over tokens, layers and steps',
  kSmoke,
  async ({ page, recorded }) => {
    await open(page, recorded);
    await advance(page, recorded, 3);
    const map = page.getByTestId('tile-map');
    await map.click({ position: await spotOf(map, 5, 7, kTiles, kTokens) });
    const pin = page.getByTestId('pin');
    await expect(pin).toBeVisible();
    await idle(page);
    const sent = (layer: number, step: number): number => recorded.expected.tile(layer, step, 7, 5);
    await expect(page.getByTestId('pin-value')).toHaveText(pinned(sent(1, 33)));
    await expect(pin).toContainText('columns 40–47, tile 5');
    await expect(pin).toContainText('position 7');
    const minus = (value: number): string =>
      String(Number(value.toPrecision(5)))
        .replace('-', '−')
        .slice(0, 6);
    await expect(page.getByTestId('pin-layers-readout')).toContainText(minus(sent(1, 33)));
    await expect(page.getByTestId('pin-steps-readout')).toContainText('step 33');
    await expect(page.getByTestId('pin-steps-readout')).toContainText(minus(sent(1, 33)));
    expect(search(page).get('pin')).toBe('7.5');
    // The third of four layers.
    const layers = page.getByTestId('pin-layers');
    const box = await layers.boundingBox();
    await layers.click({ position: { x: (5 / 8) * (box?.width ?? 0), y: 9 } });
    await expect(page.getByTestId('layer')).toHaveValue('3');
    await idle(page);
    await expect(page.getByTestId('pin-value')).toHaveText(pinned(sent(3, 33)));
    await page.reload();
    await expect(page.getByTestId('pin-value')).toHaveText(pinned(sent(3, 33)));
    await page.getByTestId('unpin').click();
    await expect(pin).toHaveCount(0);
  },
);

test('the keyboard zooms, moves and pins', async ({ page, recorded }) => {
  await open(page, recorded);
  await page.getByRole('application').nth(1).focus();
  await page.keyboard.press('+');
  await idle(page);
  const [first, end] = (search(page).get('cols') ?? '').split('-').map(Number);
  expect(end - first).toBe(Math.floor(0.7 * kTokens));
  await page.keyboard.press('Shift+ArrowRight');
  await idle(page);
  const [moved] = (search(page).get('cols') ?? '').split('-').map(Number);
  expect(moved).toBeGreaterThan(first);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('pin')).toBeVisible();
  await page.keyboard.press('0');
  await idle(page);
  expect(search(page).get('cols')).toBeNull();
  expect(search(page).get('pin')).not.toBeNull();
});

test('tokens can be read below a map at any zoom', async ({ page, recorded }) => {
  await open(page, recorded);
  const map = page.getByTestId('tile-map');
  expect((await axesOf(map)).below).toBe(32);
  await page.screenshot({ path: 'test-results/axis-whole.png' });
  await page.goto(recorded.at('cols=8-24&rows=2-6&pin=12.3'));
  await expect(page.getByTestId('pin')).toBeVisible();
  await idle(page);
  await page.screenshot({ path: 'test-results/axis-zoomed.png' });
  await hoverTile(page, 0, 0, 4, 16);
});

test('attention: the text of the row, coloured by one query and head', async ({
  page,
  recorded,
}) => {
  await open(page, recorded);
  await page.getByTestId('point').selectOption('RawAttentionScore');
  const text = page.getByTestId('query-text');
  await expect(page.getByTestId('query-name')).toContainText('position 15');
  await text.locator('span').nth(12).click();
  await expect(page.getByTestId('query-name')).toContainText('position 12');
  const shares = await text
    .locator('span')
    .evaluateAll((all) =>
      all.map((each) => parseInt((each as HTMLElement).style.getPropertyValue('--share'))),
    );
  const weights = shares.map((_, key) => recorded.expected.attention(1, 0, 12, key, 30));
  const largest = Math.max(...weights);
  expect(shares).toEqual(weights.map((weight) => Math.round((100 * weight) / largest)));
  await page.getByTestId('head').selectOption('average');
  await expect(page.getByRole('heading', { name: /Layer 1, average of the heads/ })).toBeVisible();
  await idle(page);
  const map = page.getByTestId('attention-map');
  await map.hover({ position: await spotOf(map, 12, 9, kQueries, kTokens) });
  const heads = [0, 1, 2, 3].map((head) => recorded.expected.attention(1, head, 12, 9, 30));
  expect(await tipValue(page)).toBeCloseTo(heads.reduce((sum, each) => sum + each) / kHeads, 6);
  expect(search(page).get('head')).toBe('mean');
});

/** Clicks the highest line of a chart at its middle step; returns the line's name. */
async function clickHighest(page: Page, label: RegExp): Promise<string> {
  const chart = page.getByLabel(label).locator('.u-over');
  const box = await chart.boundingBox();
  if (box === null) throw new Error('no chart');
  const tip = chart.getByTestId('line-tip');
  for (let y = 1; y < box.height; y += 4) {
    await page.mouse.move(box.x + box.width / 2, box.y + y);
    // So the tip is that of this place, not of the one before.
    await page.evaluate(() => new Promise(requestAnimationFrame));
    if (await tip.isVisible()) break;
  }
  const name = await tip.innerText();
  await page.mouse.down();
  await page.mouse.up();
  return name;
}

test('curves: the line next to the mouse has its name, and a click on it chooses the layer', async ({
  page,
  recorded,
}) => {
  await open(page, recorded);
  await page.getByTestId('point').selectOption('HiddenStates · stats');
  await expect(page.getByTestId('stats-table')).toBeVisible();
  await idle(page);
  // The last of four lines is the highest.
  expect(await clickHighest(page, /Root mean square of HiddenStates by step/)).toContain('L4');
  await expect(page.getByTestId('layer')).toHaveValue('4');
});

test('updates: a click on a curve chooses the parameter of that layer', async ({
  page,
  recorded,
}) => {
  await page.goto(recorded.at('point=Updates'));
  const table = page.getByTestId('updates');
  await table.getByRole('button', { name: 'layers.4.mlp.fc1.weight', exact: true }).click();
  await idle(page);
  const line = await clickHighest(page, /of layers\.4\.mlp\.fc1\.weight by step/);
  const layer = /L(\d)/.exec(line)?.[1] ?? '';
  expect(layer).not.toBe('4');
  await expect(table.getByRole('button', { pressed: true })).toHaveText(
    `layers.${layer}.mlp.fc1.weight`,
  );
});

test('curves: a zoom that leaves nothing says so, with the way back', async ({
  page,
  recorded,
}) => {
  await page.goto(recorded.at('zoom=400-500'));
  await expect(page.getByTestId('empty-zoom').first()).toContainText(
    'No data between steps 400 and 500',
  );
  await page.getByRole('button', { name: 'Show all steps' }).first().click();
  await expect(page.getByTestId('empty-zoom')).toHaveCount(0);
});

test('attention health: a head at one token, over tokens, layers and steps', async ({
  page,
  recorded,
}) => {
  await page.goto(recorded.at('point=attention.entropy'));
  const map = page.getByTestId('health-map');
  await expect(map).toBeVisible();
  await idle(page);
  // Texts of tokens stand below the numbers.
  expect((await axesOf(map)).below).toBe(32);
  await map.click({ position: await spotOf(map, 2, 17, kLayers, kTokens) });
  await expect(page.getByTestId('layer')).toHaveValue('3');
  const value = recorded.expected.entropy(3, kFull, 17, 0);
  await expect(page.getByTestId('pin-value')).toHaveText(pinned(value));
  await expect(page.getByTestId('pin')).toContainText('Head');
  await expect(page.getByTestId('pin-text')).toBeVisible();
  await expect(page.getByTestId('pin-layers')).toBeVisible();
  await expect(page.getByTestId('pin-steps-readout')).toContainText(`step ${kFull}`);
  await expect.poll(() => search(page).get('pin')).toBe('17');
});

test('the lens: a click pins a cell, the arrow keys move the pin, Enter lets it go', async ({
  page,
  recorded,
}) => {
  await page.goto(recorded.at('point=LogitLens&lens=entropy'));
  await expect(page.getByTestId('lens-grid')).toBeVisible();
  await idle(page);
  await page.locator('#lens-1-24').click();
  const entropy = (layer: number, token: number): string =>
    pinned(recorded.expected.softmax(kFull, token, layer)[1]);
  await expect(page.getByTestId('pin-value')).toHaveText(entropy(2, 24));
  await expect(page.getByTestId('pin-layers')).toBeVisible();
  await expect(page.getByTestId('pin-steps-readout')).toContainText(`step ${kFull}`);
  await page.getByTestId('lens-grid').press('ArrowRight');
  await page.getByTestId('lens-grid').press('ArrowDown');
  await expect(page.getByTestId('pin-value')).toHaveText(entropy(3, 25));
  await page.getByTestId('lens-grid').press('Enter');
  await expect(page.getByTestId('pin')).toHaveCount(0);
});
