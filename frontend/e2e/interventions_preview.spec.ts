import { expect, type Page } from '@playwright/test';
import { tokenText } from '../src/ui/maps/token_text.ts';
import { kSteer, lineOf, preview, ready, recordsOf, visit } from './interventions_support.ts';
import { kLayers, kTokens, type RealRun, test } from './real_run.ts';
import { idle, spotOf, tipValue } from './support.ts';

// The maps of a preview: the same evaluation batch without and with the program. And what the model would say.

/** A power of two scales a mean over a tile exactly. */
const kFactor = 4;
const kScale = `layers[3].output = ${kFactor}.0 * layers[3].output`;
const kTiles = 24;
const kMaps = [
  {
    ...{ point: 'HiddenStates', phases: ['eval'], rows: 1, dtype: 'f32' },
    compressor: { kind: 'tile', tiles: kTiles, method: 'mean' },
  },
  { point: 'InputTokens', phases: ['eval'], rows: 1 },
] as const;

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
  await map.hover({ position: await spotOf(map, row, col, rows, kTokens) });
  const text = await page.getByTestId('tip').innerText();
  const token = Number(/position (\d+)/.exec(text)?.[1]);
  expect(Math.abs(token - col)).toBeLessThan(3);
  return { value: await tipValue(page), token };
}

const shown = (number: number): number => Number(number.toPrecision(7));

/** The number of a tile at a token. */
type Tile = (layer: number, token: number, tile: number) => number;

/** What the trainer has without a program. */
async function tilesOf(run: RealRun): Promise<Tile> {
  const { off } = await recordsOf(run, { program: kScale, plan: { entries: kMaps.slice(0, 1) } });
  return (layer, token, tile) => off.get(layer)?.[token * kTiles + tile] ?? Number.NaN;
}

/** Row 3 is reached, with the root mean square of the change over its tiles; the rows before are not. */
async function expectReach(page: Page, change: Tile): Promise<void> {
  expect((await cellAt(page, 'before-after-reach', 0, 30, kLayers)).value).toBe(0);
  expect((await cellAt(page, 'before-after-reach', 1, 30, kLayers)).value).toBe(0);
  const reached = await cellAt(page, 'before-after-reach', 2, 30, kLayers);
  let squares = 0;
  for (let tile = 0; tile < kTiles; tile++) squares += change(3, reached.token, tile) ** 2;
  expect(reached.value).toBe(shown(Math.sqrt(squares / kTiles)));
}

/** The layer is not the last, and its maps are not those of the layer that the page shows first. */
async function chooseLayer(page: Page): Promise<void> {
  await expect(page.getByRole('heading', { name: 'L4, on − off' })).toBeVisible();
  await page.getByTestId('before-after-reach').click({
    position: await spotOf(page.getByTestId('before-after-reach'), 2, 30, kLayers, kTokens),
  });
  await expect(page.getByTestId('before-after-layer')).toHaveValue('3');
  await expect(page.getByRole('heading', { name: 'L3, on − off' })).toBeVisible();
  await idle(page);
}

test('a preview shows how far a program reaches, and a layer without and with it', async ({
  page,
  run,
}) => {
  const value = await tilesOf(run);
  const scaled: Tile = (...place) => kFactor * value(...place);
  const change: Tile = (...place) => scaled(...place) - value(...place);
  await visit(page, run);
  await ready(page, kScale, 'scale');
  await preview(page);
  await expect(page.getByTestId('before-after-reach')).toBeVisible();
  const ofPage = (await lineOf(run, 'intervention.preview', 2)).detail.params as {
    readonly plan: unknown;
  };
  expect((ofPage.plan as { readonly entries: object[] }).entries.slice(0, 2)).toEqual(kMaps);
  await expectReach(page, change);
  // The last layer until a row is chosen.
  await chooseLayer(page);
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
  await page.evaluate(() => window.__tt?.app.show({ clip: '99' }));
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
  run,
}) => {
  await visit(page, run);
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

const kVocabulary = 256;
const kShown = 10;

/** The most likely tokens after a token, by the scores of all tokens: name, without and with the program. */
function likely(
  { off, on }: Awaited<ReturnType<typeof recordsOf>>,
  token: number,
): readonly (readonly string[])[] {
  const [before, after] = [off, on].map((side) => {
    const first = token * kVocabulary;
    const powers = side.get(0)?.subarray(first, first + kVocabulary) ?? new Float32Array(0);
    const weights = Array.from(powers, Math.exp);
    const sum = weights.reduce((total, each) => total + each);
    return weights.map((each) => (100 * each) / sum);
  });
  return before
    .map((share, id) => ({ id, share, other: after[id] }))
    .sort((a, b) => Math.max(b.share, b.other) - Math.max(a.share, a.other))
    .slice(0, kShown)
    .map(({ id, share, other }) => [
      ...[tokenText(id, 'byte'), `${share.toFixed(1)} %`, `${other.toFixed(1)} %`],
    ]);
}

test('a preview says what the model would say next, of the batch and of a prompt', async ({
  page,
  run,
}) => {
  const [prompt] = ['Once upon a time'];
  const logits = { point: 'Logits', prompts: 'probes', rows: 1, compressor: { kind: 'none' } };
  const plan = { entries: [logits] };
  const scores = await recordsOf(run, { program: kSteer, parameters: { alpha: 8 }, plan });
  await visit(page, run);
  await ready(page);
  await page.getByLabel('Value of alpha').fill('8');
  await preview(page);
  const texts = page.getByTestId('preview-text').locator('option');
  await expect(texts).toHaveText([
    'evaluation batch, row 0',
    `probes: ${prompt}`,
    'probes: def f(',
  ]);
  await expect(page.getByTestId('preview-exactness')).toContainText('KL are exact');
  await page.getByTestId('preview-text').selectOption('1');
  const tokens = page.getByTestId('preview-tokens').getByRole('option');
  await expect(tokens).toHaveCount(prompt.length);
  // A prompt is shown at its end, where the model would go on.
  await expect(tokens.last()).toHaveAttribute('aria-selected', 'true');
  const rows = await page
    .getByTestId('preview-outcomes')
    .locator('tbody tr')
    .evaluateAll((each) =>
      each.map((row) =>
        [...row.children].slice(0, 3).map((cell) => cell.textContent?.trim() ?? ''),
      ),
    );
  const wanted = likely(scores, prompt.length - 1);
  expect(rows).toEqual(wanted);
  expect(wanted.some(([, off, on]) => off !== on)).toBe(true);
  await expect(page.getByTestId('preview-divergence')).toHaveText(
    /^KL \S*[1-9]\S* nats per token$/,
  );
});

test('a preview without maps: nothing changes', async ({ page, run }) => {
  await visit(page, run);
  await ready(page, kScale.replace(`${kFactor}.0`, '1.0'), 'scale');
  await preview(page);
  await expect(page.getByTestId('preview-result')).toContainText('last training batch');
  await expect(page.getByTestId('before-after-same')).toContainText(
    'are the same without and with',
  );
  await expect(page.getByTestId('before-after-reach')).toHaveCount(0);
  await expect(page.getByTestId('preview-divergence')).toHaveText('KL 0 nats per token');
});
