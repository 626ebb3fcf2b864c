import { expect, type Page } from '@playwright/test';
import { attentionAt, kSequence } from './fake_data.ts';
import { entropyAt, lensNumbers } from './fake_derived.ts';
import {
  advance,
  axesOf,
  digits,
  hoverTile,
  idle,
  kSmoke,
  open,
  spotOf,
  test,
  tipValue,
  watch,
} from './support.ts';

// Zooming into a map, and a cell that is held: by mouse and by keyboard, and in the address.

const kHidden = 7;

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
  const [a, b] = [await spotOf(map, ...from, 64), await spotOf(map, ...to, 64)];
  await page.mouse.move(box.x + a.x, box.y + a.y);
  await page.mouse.down();
  await page.mouse.move(box.x + b.x - 3, box.y + b.y, { steps: 4 });
  await page.mouse.move(box.x + b.x, box.y + b.y);
  await page.mouse.up();
  await idle(page);
}

test('a map is zoomed by dragging, by the wheel and moved; a double click shows all', async ({
  page,
  hub,
}) => {
  await open(page, hub);
  await drag(page, [16, 100], [31, 131]);
  expect([search(page).get('cols'), search(page).get('rows')]).toEqual(['100-132', '16-32']);
  expect(search(page).get('pin')).toBeNull();
  const map = page.getByTestId('tile-map');
  await map.hover({ position: await spotOf(map, 3, 5, 16, 32) });
  expect(await tipValue(page)).toBe(digits(hub.value(kHidden, 1, 120, 105, 19, 64)));
  await page.mouse.wheel(0, -300);
  await expect.poll(async () => (await idle(page), search(page).get('cols'))).not.toBe('100-132');
  const [first, end] = (search(page).get('cols') ?? '').split('-').map(Number);
  expect(end - first).toBeLessThan(32);
  expect([first <= 105, 105 < end]).toEqual([true, true]);
  await page.keyboard.down('Shift');
  await page.mouse.wheel(0, 400);
  await page.keyboard.up('Shift');
  await expect
    .poll(async () => (await idle(page), Number(search(page).get('cols')?.split('-')[0])))
    .toBeGreaterThan(first);
  await map.dblclick({ position: await spotOf(map, 8, 8, 16, 16) });
  await idle(page);
  expect([...search(page).keys()]).not.toContain('cols');
  expect(search(page).get('pin'), 'a double click pins nothing').toBeNull();
});

test(
  'a click pins a cell: its value over tokens, layers and steps',
  kSmoke,
  async ({ page, hub }) => {
    hub.firstKept = hub.step;
    await open(page, hub);
    await advance(page, hub, 3);
    const map = page.getByTestId('tile-map');
    await map.click({ position: await spotOf(map, 17, 70, 64) });
    const pin = page.getByTestId('pin');
    await expect(pin).toBeVisible();
    await idle(page);
    const sent = (layer: number, step: number, token = 70): number =>
      digits(hub.value(kHidden, layer, step, token, 17, 64));
    await expect(page.getByTestId('pin-value')).toHaveText(String(sent(1, 123)).replace('-', '−'));
    await expect(pin).toContainText('columns 68–71, tile 17');
    await expect(pin).toContainText('position 70');
    const minus = (value: number): string =>
      String(Number(value.toPrecision(5)))
        .replace('-', '−')
        .slice(0, 6);
    await expect(page.getByTestId('pin-layers-readout')).toContainText(minus(sent(1, 123)));
    await expect(page.getByTestId('pin-steps-readout')).toContainText('step 123');
    await expect(page.getByTestId('pin-steps-readout')).toContainText(minus(sent(1, 123)));
    expect(search(page).get('pin')).toBe('70.17');
    // The third of four layers.
    const layers = page.getByTestId('pin-layers');
    const box = await layers.boundingBox();
    await layers.click({ position: { x: (5 / 8) * (box?.width ?? 0), y: 9 } });
    await expect(page.getByTestId('layer')).toHaveValue('3');
    await idle(page);
    await expect(page.getByTestId('pin-value')).toHaveText(String(sent(3, 123)).replace('-', '−'));
    await page.reload();
    await expect(page.getByTestId('pin-value')).toHaveText(String(sent(3, 123)).replace('-', '−'));
    await page.getByTestId('unpin').click();
    await expect(pin).toHaveCount(0);
  },
);

test('the keyboard zooms, moves and pins', async ({ page, hub }) => {
  hub.firstKept = hub.step;
  await open(page, hub);
  await page.getByRole('application').nth(1).focus();
  await page.keyboard.press('+');
  await idle(page);
  const [first, end] = (search(page).get('cols') ?? '').split('-').map(Number);
  expect(end - first).toBe(Math.floor(0.7 * 256));
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

test('tokens can be read below a map at any zoom', async ({ page, hub }) => {
  hub.firstKept = hub.step;
  watch(hub, { point: 'HiddenStates', compressor: { kind: 'tile', tiles: 64 } });
  await open(page, hub);
  const map = page.getByTestId('tile-map');
  expect((await axesOf(map)).below).toBe(32);
  await page.screenshot({ path: 'test-results/axis-whole.png' });
  await page.goto(hub.url.replace('/#', '/?cols=40-80&rows=8-20&pin=60.12#'));
  await expect(page.getByTestId('pin')).toBeVisible();
  await idle(page);
  await page.screenshot({ path: 'test-results/axis-zoomed.png' });
  await hoverTile(page, 0, 0, 12);
});

test('attention: the text of the row, coloured by one query and head', async ({ page, hub }) => {
  watch(hub, { point: 'RawAttentionScore', compressor: { kind: 'none' }, tokens: [0, 48] });
  await open(page, hub, 'attention-map');
  const text = page.getByTestId('query-text');
  await expect(page.getByTestId('query-name')).toContainText('position 47');
  await text.locator('span').nth(30).click();
  await expect(page.getByTestId('query-name')).toContainText('position 30');
  const shares = await text
    .locator('span')
    .evaluateAll((all) =>
      all.map((each) => parseInt((each as HTMLElement).style.getPropertyValue('--share'))),
    );
  const weights = shares.map((_, key) => attentionAt(1, 0, 30, key, 120));
  const largest = Math.max(...weights);
  expect(shares).toEqual(weights.map((weight) => Math.round((100 * weight) / largest)));
  await page.getByTestId('head').selectOption('average');
  await expect(page.getByRole('heading', { name: /Layer 1, average of the heads/ })).toBeVisible();
  await idle(page);
  const map = page.getByTestId('attention-map');
  await map.hover({ position: await spotOf(map, 40, 34, 48, kSequence) });
  const heads = [0, 1, 2, 3].map((head) => Math.fround(attentionAt(1, head, 40, 34, 120)));
  expect(await tipValue(page)).toBeCloseTo(heads.reduce((sum, each) => sum + each) / 4, 6);
  expect(search(page).get('head')).toBe('mean');
});

test('curves: the line next to the mouse has its name, and a click on it chooses the layer', async ({
  page,
  hub,
}) => {
  hub.firstKept = hub.step;
  watch(hub, { point: 'HiddenStates', compressor: { kind: 'stats' } });
  await open(page, hub, 'stats-table');
  await advance(page, hub, 6);
  const chart = page.getByLabel(/Root mean square of HiddenStates by step/).locator('.u-over');
  const box = await chart.boundingBox();
  if (box === null) throw new Error('no chart');
  // The last of four lines is the highest.
  for (let y = 1; y < box.height; y += 4) {
    await page.mouse.move(box.x + box.width / 2, box.y + y);
    if (await chart.getByTestId('line-tip').isVisible()) break;
  }
  await expect(chart.getByTestId('line-tip')).toContainText('L4');
  await page.mouse.down();
  await page.mouse.up();
  await expect(page.getByTestId('layer')).toHaveValue('4');
});

test('curves: a zoom that leaves nothing says so, with the way back', async ({ page, hub }) => {
  await page.goto(hub.url.replace('/#', '/?zoom=400-500#'));
  await expect(page.getByTestId('empty-zoom').first()).toContainText(
    'No data between steps 400 and 500',
  );
  await page.getByRole('button', { name: 'Show all steps' }).first().click();
  await expect(page.getByTestId('empty-zoom')).toHaveCount(0);
});

test('attention health: a head at one token, over tokens, layers and steps', async ({
  page,
  hub,
}) => {
  hub.firstKept = hub.step;
  watch(hub, { point: 'attention.entropy', compressor: { kind: 'none' } });
  await open(page, hub, 'health-map');
  await advance(page, hub, 2);
  const map = page.getByTestId('health-map');
  // Texts of tokens stand below the numbers.
  expect((await axesOf(map)).below).toBe(32);
  await map.click({ position: await spotOf(map, 2, 70, 4) });
  await expect(page.getByTestId('layer')).toHaveValue('3');
  const value = digits(entropyAt(3, 122, 70, 0));
  await expect(page.getByTestId('pin-value')).toHaveText(String(value));
  await expect(page.getByTestId('pin')).toContainText('Head');
  await expect(page.getByTestId('pin-text')).toBeVisible();
  await expect(page.getByTestId('pin-layers')).toBeVisible();
  await expect(page.getByTestId('pin-steps-readout')).toContainText('step 122');
  await expect.poll(() => search(page).get('pin')).toBe('70');
});

test('the lens: a click pins a cell, the arrow keys move the pin, Enter lets it go', async ({
  page,
  hub,
}) => {
  hub.firstKept = hub.step;
  watch(hub, { point: 'LogitLens', compressor: { kind: 'topk', k: 5 } });
  await page.goto(hub.url.replace('/#', '/?lens=entropy#'));
  await expect(page.getByTestId('lens-grid')).toBeVisible();
  await idle(page);
  await page.locator('#lens-1-246').click();
  const entropy = (layer: number, token: number): string =>
    String(digits(lensNumbers(layer, hub.step, token)[1]));
  await expect(page.getByTestId('pin-value')).toHaveText(entropy(2, 246));
  await expect(page.getByTestId('pin-layers')).toBeVisible();
  await expect(page.getByTestId('pin-steps-readout')).toContainText(`step ${hub.step}`);
  await page.getByTestId('lens-grid').press('ArrowRight');
  await page.getByTestId('lens-grid').press('ArrowDown');
  await expect(page.getByTestId('pin-value')).toHaveText(entropy(3, 247));
  await page.getByTestId('lens-grid').press('Enter');
  await expect(page.getByTestId('pin')).toHaveCount(0);
});
