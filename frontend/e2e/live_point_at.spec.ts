import { expect, type Page, test } from '@playwright/test';
import { readByPython } from './live_support.ts';
import { idle, kNightly, spotOf, tipValue } from './support.ts';

// Zoom, pinned cells, the attention of one query, named curves and the map of a statistic on a real run. The page
// shows what live_point_at.py reads with the Python client.

const kPatience = { timeout: 60_000 };
const kAddress = process.env.TT_PAGE_URL ?? '';
const kTiles = 64;
const kTokens = 256;
const kQueries = 48;

interface Read {
  readonly steps: readonly number[];
  readonly layer: number;
  readonly before: readonly unknown[];
  /** Of tile 17 at token 70, by step and layer. */
  readonly cell: readonly (readonly number[])[];
  /** Of tile 19 at token 105 at the last step. */
  readonly inside: number;
  /** By step and layer. */
  readonly rms: readonly (readonly number[])[];
  /** By head, query and key, at the last step. */
  readonly attention: readonly (readonly (readonly number[])[])[];
}

let read: Read | null = null;

function truth(): Read {
  if (read === null) throw new Error('nothing was read');
  return read;
}

test.describe.configure({ mode: 'serial' });

test.beforeAll(async () => {
  test.setTimeout(300_000);
  read = await readByPython<Read>('live_point_at.py', kAddress);
});

// Other tests need the plan that the run had.
test.afterAll(async ({ browser }) => {
  const page = await browser.newPage();
  await page.goto(kAddress);
  await expect(page.getByTestId('chip')).toHaveText(/live|lagging|paused/, kPatience);
  await page.evaluate(async (entries) => {
    await window.__tt?.app.control.setPlan({ entries });
    await window.__tt?.app.control.release();
  }, truth().before);
  await page.close();
});

async function show(page: Page, query: string): Promise<void> {
  await page.setViewportSize({ width: 1440, height: 900 });
  const step = truth().steps.at(-1);
  await page.goto(kAddress.replace('/#', `/?step=${step}&layer=${truth().layer}&${query}#`));
  await expect(page.getByTestId('shown-step')).toHaveText(`step ${step}`, kPatience);
  await idle(page);
}

function search(page: Page, name: string): string | null {
  return new URL(page.url()).searchParams.get(name);
}

/** A number as the page writes it. */
function written(value: number, digits: number): string {
  return Math.fround(value).toPrecision(digits).replace('-', '−');
}

test('a map is zoomed, and a pinned cell has its values', kNightly, async ({ page }) => {
  const { cell, inside, layer, steps } = truth();
  await show(page, 'point=HiddenStates');
  const map = page.getByTestId('tile-map');
  const box = await map.boundingBox();
  if (box === null) throw new Error('no map');
  const [from, to] = [
    await spotOf(map, 16, 100, kTiles, kTokens),
    await spotOf(map, 31, 131, kTiles, kTokens),
  ];
  await page.mouse.move(box.x + from.x, box.y + from.y);
  await page.mouse.down();
  await page.mouse.move(box.x + to.x - 3, box.y + to.y, { steps: 4 });
  await page.mouse.move(box.x + to.x, box.y + to.y);
  await page.mouse.up();
  await idle(page);
  expect([search(page, 'rows'), search(page, 'cols')]).toEqual(['16-32', '100-132']);
  await map.hover({ position: await spotOf(map, 3, 5, 16, 32) });
  expect(await tipValue(page)).toBe(Number(Math.fround(inside).toPrecision(7)));
  await page.mouse.wheel(0, -300);
  await expect.poll(async () => (await idle(page), search(page, 'cols'))).not.toBe('100-132');
  await map.dblclick({ position: { x: 200, y: 60 } });
  await expect.poll(() => search(page, 'cols')).toBeNull();

  await map.click({ position: await spotOf(map, 17, 70, kTiles, kTokens) });
  const last = cell.at(-1) ?? [];
  await expect(page.getByTestId('pin-value')).toHaveText(written(last[layer - 1], 7), kPatience);
  await expect(page.getByTestId('pin-steps-readout')).toHaveText(/^step \d+: −?[\d.]+/);
  await expect(page.getByTestId('pin-text')).toBeVisible();
  for (const other of [1, 2, 4]) {
    const layers = page.getByTestId('pin-layers');
    const width = (await layers.boundingBox())?.width ?? 0;
    await layers.click({ position: { x: ((2 * other - 1) / 8) * width, y: 9 } });
    await expect(page.getByTestId('layer')).toHaveValue(String(other));
    await expect(page.getByTestId('pin-value')).toHaveText(written(last[other - 1], 7), kPatience);
  }
  for (const [at, step] of steps.entries()) {
    await page.goto(kAddress.replace('/#', `/?step=${step}&layer=${layer}&pin=70.17#`));
    const value = written(cell[at][layer - 1], 7);
    await expect(page.getByTestId('pin-value')).toHaveText(value, kPatience);
  }
});

test('the text shows the attention of one query', kNightly, async ({ page }) => {
  const { attention, layer } = truth();
  await show(page, 'point=RawAttentionScore&head=1');
  const text = page.getByTestId('query-text').locator('span');
  await text.nth(30).click();
  await expect(page.getByTestId('query-name')).toContainText('position 30');
  const shares = await text.evaluateAll((all) =>
    all.map((each) => parseInt((each as HTMLElement).style.getPropertyValue('--share'))),
  );
  const weights = attention[1][30];
  const largest = Math.max(...weights);
  expect(shares).toHaveLength(kTokens);
  shares.forEach((share, key) => {
    expect(Math.abs(share - (100 * weights[key]) / largest), `key ${key}`).toBeLessThanOrEqual(
      0.51,
    );
  });
  await page.getByTestId('head').selectOption('average');
  const title = `Layer ${layer}, average of the heads`;
  await expect(page.getByRole('heading', { name: title })).toBeVisible();
  await idle(page);
  const map = page.getByTestId('attention-map');
  const mean = (query: number, key: number): number =>
    attention.reduce((sum, head) => sum + head[query][key], 0) / attention.length;
  for (const [query, key] of [
    [40, 34],
    [20, 3],
    [47, 46],
  ] as const) {
    await map.hover({ position: await spotOf(map, query, key, kQueries, kTokens) });
    expect(await tipValue(page)).toBeCloseTo(mean(query, key), 5);
  }
});

test('curves have names, and a statistic has a map', kNightly, async ({ page }) => {
  const { rms, steps } = truth();
  const query = `point=${encodeURIComponent('HiddenStates · stats')}&zoom=${steps[0]}-${steps.at(-1)}`;
  await show(page, query);
  await page.getByTestId('stat').selectOption('rms');
  const chart = page.getByLabel(/Root mean square of HiddenStates by step/).locator('.u-over');
  const box = await chart.boundingBox();
  if (box === null) throw new Error('no chart');
  const tip = chart.getByTestId('line-tip');
  const names = new Set<string>();
  for (let y = 1; y < box.height; y += 3) {
    await page.mouse.move(box.x + box.width / 2, box.y + y);
    // Between two lines the name may go while it is read.
    const name = (await tip.isVisible()) ? /L\d/.exec(await tip.innerText())?.[0] : undefined;
    if (name !== undefined) names.add(name);
  }
  expect([...names].sort()).toEqual(['L1', 'L2', 'L3', 'L4']);

  await page.getByRole('button', { name: 'map', exact: true }).click();
  const map = page.getByTestId('stat-map');
  await expect(map).toBeVisible();
  for (const [at, step] of steps.entries()) {
    for (const layer of [1, 4]) {
      const spot = await spotOf(map, layer - 1, at, 4, steps.length);
      await map.hover({ position: spot });
      const shown = await tipValue(page);
      const exact = rms[at][layer - 1];
      expect(Math.abs(shown - exact) / exact, `step ${step}, L${layer}`).toBeLessThan(1e-4);
    }
  }
});
