import { expect, type Page } from '@playwright/test';
import { kLayers } from './fake_data.ts';
import type { FakeHub } from './fake_hub.ts';
import { asked, ready, visit } from './interventions_support.ts';
import { idle, spotOf, test, tipValue } from './support.ts';

// The maps of a preview: the same evaluation batch without and with the program.

const kScale = 'layers[3].output = 1.5 * layers[3].output';
const kTiles = 24;

/** What the tip tells of a cell: on a narrow map it may be that of a token beside `col`. */
async function cellAt(
  page: Page,
  testid: string,
  row: number,
  col: number,
  rows: number,
): Promise<{ readonly value: number; readonly token: number }> {
  const map = page.getByTestId(testid);
  await map.scrollIntoViewIfNeeded();
  await map.hover({ position: await spotOf(map, row, col, rows) });
  const text = await page.getByTestId('tip').innerText();
  const token = Number(/position (\d+)/.exec(text)?.[1]);
  expect(Math.abs(token - col)).toBeLessThan(3);
  return { value: await tipValue(page), token };
}

test('a preview shows how far a program reaches, and a layer without and with it', async ({
  page,
  hub,
}) => {
  const value = (layer: number, token: number, tile: number): number =>
    hub.value(7, layer, hub.step, token, tile, kTiles);
  const scaled = (...place: [number, number, number]): number => Math.fround(1.5 * value(...place));
  const change = (...place: [number, number, number]): number => scaled(...place) - value(...place);
  const shown = (number: number): number => Number(number.toPrecision(7));
  await visit(page, hub);
  await ready(page, kScale, 'scale');
  await page.getByTestId('preview').click();
  await expect(page.getByTestId('before-after-reach')).toBeVisible();
  await idle(page);
  const plan = asked(hub, 'intervention.preview').at(-1)?.plan as { entries: object[] };
  expect(plan.entries.slice(0, 2)).toEqual([
    {
      ...{ point: 'HiddenStates', phases: ['eval'], rows: 1, dtype: 'f32' },
      compressor: { kind: 'tile', tiles: kTiles, method: 'mean' },
    },
    { point: 'InputTokens', phases: ['eval'], rows: 1 },
  ]);
  // Nothing before the layer that is written.
  expect((await cellAt(page, 'before-after-reach', 1, 30, kLayers)).value).toBe(0);
  const reached = await cellAt(page, 'before-after-reach', 2, 30, kLayers);
  let squares = 0;
  for (let tile = 0; tile < kTiles; tile++) squares += change(3, reached.token, tile) ** 2;
  expect(reached.value).toBe(shown(Math.sqrt(squares / kTiles)));
  // The last layer until a row is chosen.
  await expect(page.getByRole('heading', { name: 'L4, on − off' })).toBeVisible();
  await page.getByTestId('before-after-reach').click({
    position: await spotOf(page.getByTestId('before-after-reach'), 2, 30, kLayers),
  });
  await expect(page.getByTestId('before-after-layer')).toHaveValue('3');
  await expect(page.getByRole('heading', { name: 'L3, on − off' })).toBeVisible();
  await idle(page);
  for (const [side, of] of Object.entries({ off: value, on: scaled, difference: change })) {
    const cell = await cellAt(page, `before-after-${side}`, 9, 30, kTiles);
    expect(cell.value).toBe(shown(of(3, cell.token, 9)));
  }
  await expect(page.getByTestId('tip-text').locator('mark')).not.toBeEmpty();
  await expect(page.getByTestId('tip')).toContainText('Tile');
  // One range for off and on.
  const ends = (name: string): Promise<string> =>
    page.getByLabel(`Colour legend of the ${name}`, { exact: true }).locator('.high').innerText();
  expect(await ends('L3, off')).toBe(await ends('L3, on'));
  await page.evaluate(() => window.__tt?.app.show({ clip99: true }));
  for (const width of [1280, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    await idle(page);
    expect(await coveredNumbers(page)).toEqual([]);
  }
  await page.screenshot({ path: 'test-results/interventions-before-after.png' });
});

/** Legends whose numbers reach into what stands beside them, in a panel's head or the line below. */
function coveredNumbers(page: Page): Promise<string[]> {
  return page.getByTestId('before-after').evaluate((maps) => {
    const words = (part: Element): DOMRect => {
      const range = document.createRange();
      range.selectNodeContents(part);
      return range.getBoundingClientRect();
    };
    return [...maps.querySelectorAll('section')].flatMap((panel) => {
      const { left, right } = panel.getBoundingClientRect();
      const parts = ['h2', '.low', '.ramp', '.high'].map((part) => panel.querySelector(part));
      const head = parts.map((part) => words(part ?? panel));
      const isApart = head.every((box, i) => i === 0 || head[i - 1].right <= box.left);
      const below = [...panel.querySelectorAll('p > *')].map((part) =>
        part.getBoundingClientRect(),
      );
      const isInside = [...head, ...below].every((box) => left <= box.left && box.right <= right);
      return isApart && isInside ? [] : [panel.textContent ?? ''];
    });
  });
}

test('the maps of a preview by keyboard: Enter chooses a layer, Escape closes the tip alone', async ({
  page,
  hub,
}) => {
  await visit(page, hub);
  await ready(page, kScale, 'scale');
  await page.getByTestId('preview').click();
  const reach = page.getByRole('application', { name: /Size of the change/ });
  await reach.focus();
  for (const key of ['ArrowUp', 'ArrowUp', 'Enter']) await page.keyboard.press(key);
  const layer = page.getByTestId('before-after-layer');
  await expect(layer).toHaveValue('2');
  await expect(page.getByTestId('tip')).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('tip')).toHaveCount(0);
  await expect(page.getByTestId('preview-result')).toBeVisible();
  await layer.focus();
  await page.keyboard.press('ArrowDown');
  await expect(page.getByRole('heading', { name: 'L3, on', exact: true })).toBeVisible();
  // Another value is previewed: the same layer.
  await page.getByTestId('preview').click();
  await expect(layer).toHaveValue('3');
});

test('a preview without maps: nothing changes, none come, or they cannot be read', async ({
  page,
  hub,
}) => {
  await visit(page, hub);
  await ready(page, kScale.replace('1.5', '1.0'), 'scale');
  const preview = page.getByTestId('preview-result');
  const again = async (how: FakeHub['interventions']['previewRecords']): Promise<void> => {
    hub.interventions.previewRecords = how;
    const before = asked(hub, 'intervention.preview').length;
    await page.getByTestId('preview').click();
    await expect.poll(() => asked(hub, 'intervention.preview').length).toBeGreaterThan(before);
    await expect(page.getByTestId('preview')).toHaveText('Preview');
    await expect(preview).toContainText('last training batch');
  };
  await again('whole');
  await expect(page.getByTestId('before-after-same')).toContainText(
    'are the same without and with',
  );
  await expect(page.getByTestId('before-after-reach')).toHaveCount(0);
  for (const how of ['none', 'refused'] as const) {
    await again(how);
    await expect(page.getByTestId('before-after')).toHaveCount(0);
    await expect(page.getByTestId('before-after-error')).toHaveCount(0);
    await expect(page.getByTestId('refusal')).toHaveCount(0);
  }
  await expect.poll(() => asked(hub, 'intervention.preview').at(-1)?.plan).toBeUndefined();
  await again('damaged');
  await expect(page.getByTestId('before-after-error')).toHaveText(
    /^The maps cannot be shown: record cut off/,
  );
});
