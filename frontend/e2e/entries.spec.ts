import { expect, type Page } from '@playwright/test';
import { kLayers, kPrompts, kQueries, kTiles, kTokens, test } from './recorded.ts';
import {
  advance,
  choose,
  digits,
  hoverTile,
  idle,
  kSmoke,
  open,
  pixels,
  seriousOf,
  spotOf,
  tipValue,
} from './support.ts';

// What the maps of layers and tiles cannot show: every other compressor, attention, gradients.

// The second row of `stats` comes after ten numbers and 48 bins.
const kKurtosis = 58;
const kRms = 59;

/** The entries of the recorded plan in the selector. */
const kShown = [
  'HiddenStates',
  'MLP1',
  'HiddenStates · stats',
  'HiddenStates · probes · projection',
  'HiddenStates · projection',
  'RawAttentionScore',
  'Logits',
  'HiddenStates · gradient',
  'FinalNorm',
  'MLP2 · empty',
  'LogitLens',
  'attention.entropy',
  'mlp.contribution',
  'Updates',
  'HiddenStates · top_tokens',
  'HiddenStates · topk',
  'MLPActivation',
  'Embedding · stats',
  'FinalNorm · stats',
];
const kFirst = 1;
const kSteps = 35;

const asWritten = (value: number): string => value.toPrecision(4).replace('-', '−');

async function show(page: Page, point: string, testid: string): Promise<void> {
  await page.getByTestId('point').selectOption(point);
  await expect(page.getByTestId(testid)).toBeVisible();
  await idle(page);
}

async function hoverCell(
  page: Page,
  testid: string,
  [row, col]: readonly [number, number],
  [rows, cols]: readonly [number, number],
): Promise<void> {
  const map = page.getByTestId(testid);
  await map.hover({ position: await spotOf(map, row, col, rows, cols) });
}

test('statistics: a table of the layers, curves over the steps, a histogram', async ({
  page,
  recorded,
}) => {
  const { expected } = recorded;
  await open(page, recorded);
  await show(page, 'HiddenStates · stats', 'stats-table');
  await advance(page, recorded, 5);
  const table = page.getByTestId('stats-table');
  await expect(table.getByRole('row')).toHaveCount(5);
  const cells = table.getByRole('row').nth(3).getByRole('cell');
  await expect(cells.nth(1)).toHaveText(asWritten(expected.stat(3, 35, 1)));
  await expect(cells.nth(3)).toHaveText(expected.stat(3, 35, kRms).toPrecision(4));
  await expect(cells.nth(5)).toHaveText(expected.stat(3, 35, kKurtosis).toPrecision(4));
  await expect(cells.nth(6)).toHaveText(expected.stat(3, 35, kKurtosis + 3).toPrecision(4));
  await expect(cells.nth(6)).toHaveAttribute('title', /^from [\d.]+ to [\d.]+$/);
  await table.getByRole('button', { name: 'L3' }).click();
  await expect(page.getByTestId('layer')).toHaveValue('3');
  await expect(page.getByRole('heading', { name: 'Layer 3: histogram' })).toBeVisible();
  const curves = page.getByLabel('Root mean square of HiddenStates by step, one line per layer');
  await idle(page);
  expect((await pixels(curves.locator('canvas'))).colors).toBeGreaterThan(20);
  const readout = page.getByTestId('layer-readout');
  await expect(readout).toContainText(`L4 ${expected.stat(4, 35, kRms).toPrecision(4)}`);
  await page.getByTestId('stat').selectOption('kurtosis');
  await expect(readout).toContainText(`L4 ${expected.stat(4, 35, kKurtosis).toPrecision(4)}`);
  await idle(page);
  expect(new URL(page.url()).search).toContain('stat=kurtosis');
  await page.getByTestId('histogram').hover();
  await expect(page.getByTestId('bin')).toContainText('≤ |x| <');
  await page.screenshot({ path: 'test-results/stats.png' });
});

test('projections of prompts: is the run turning?', kSmoke, async ({ page, recorded }) => {
  await open(page, recorded);
  await show(page, 'HiddenStates · probes · projection', 'projection-map');
  await expect(page.getByTestId('shown-step')).toHaveText('step 30');
  // Of prompts, tokens and two directions.
  const width = kPrompts[0].length;
  const sent = (layer: number, row: number, token: number, vector: number): number =>
    recorded.expected.values('prompts', layer, 30, 'eval')[2 * (row * width + token) + vector];
  const readout = page.getByTestId('layer-readout');
  await expect(readout).toContainText(`L2 ${asWritten(sent(2, 0, width - 1, 0))}`);
  const curves = page.getByLabel('Projection of HiddenStates on evil by step', { exact: false });
  expect((await pixels(curves.locator('canvas'))).colors).toBeGreaterThan(20);
  await hoverCell(page, 'projection-map', [2, 5], [4, width]);
  expect(await tipValue(page)).toBe(digits(sent(3, 0, 5, 0)));
  await expect(page.getByTestId('tip')).toContainText('on evil');
  await expect(page.getByTestId('token-colors').locator('.at')).toHaveText('u');

  // The second prompt is shorter: its last token, not the filling behind it.
  await page.getByTestId('row').selectOption({ label: '1 def f(' });
  await page.getByTestId('vector').selectOption('sycophancy');
  const end = kPrompts[1].length - 1;
  await expect(readout).toContainText(`L4 ${asWritten(sent(4, 1, end, 1))}`);
  await page.mouse.move(5, 5);
  await expect(page.getByTestId('token-colors')).toHaveText('def f(');
  await page.getByRole('button', { name: 'mean' }).click();
  let sum = 0;
  for (let token = 0; token <= end; token++) sum += sent(1, 1, token, 1);
  await expect(readout).toContainText(`L1 ${asWritten(sum / (end + 1))}`);
  await idle(page);
  expect(new URL(page.url()).search).toContain('over=mean');
  await page.screenshot({ path: 'test-results/projection.png' });
});

test('attention: a head, its queries and keys', kSmoke, async ({ page, recorded }) => {
  await open(page, recorded);
  await show(page, 'RawAttentionScore', 'attention-map');
  await page.getByTestId('head').selectOption('2');
  await page.getByTestId('layer').selectOption('3');
  await idle(page);
  await expect(page.getByRole('heading', { name: 'Layer 3, head 2: queries' })).toBeVisible();
  await hoverCell(page, 'attention-map', [12, 9], [kQueries, kTokens]);
  expect(await tipValue(page)).toBe(digits(recorded.expected.attention(3, 2, 12, 9, 30)));
  const tip = page.getByTestId('tip');
  await expect(tip).toContainText(`position 9, id ${recorded.expected.token(30, 9)}`);
  await expect(tip).toContainText('position 12');
  await hoverCell(page, 'attention-map', [10, 20], [kQueries, kTokens]);
  expect(await tipValue(page)).toBe(0);
  expect((await pixels(page.getByTestId('attention-map'))).colors).toBeGreaterThan(20);
  await page.screenshot({ path: 'test-results/attention.png' });
});

test('the best next tokens of the logits', async ({ page, recorded }) => {
  await open(page, recorded);
  await show(page, 'Logits', 'topk-map');
  await hoverCell(page, 'topk-map', [1, 8], [5, kTokens]);
  const { id, value } = recorded.expected.best(30, 8, 1);
  expect(await tipValue(page)).toBe(digits(value));
  await expect(page.getByTestId('tip')).toContainText(`id ${id}`);
  const best = page.getByTestId('best').getByRole('listitem');
  await expect(best).toHaveCount(5);
  await expect(best.nth(1)).toContainText(String.fromCharCode(id));
  await expect(best.nth(1)).toContainText(value.toPrecision(4));
  await expect(page.getByRole('heading', { name: 'Logits: largest × tokens' })).toBeVisible();
  await expect(page.getByTestId('layer').locator('option')).toHaveText(['Logits']);
  await page.screenshot({ path: 'test-results/topk.png' });
});

test('an empty record tells that the point was passed', async ({ page, recorded }) => {
  await open(page, recorded);
  await show(page, 'MLP2 · empty', 'passed');
  await expect(page.getByTestId('passed')).toContainText(
    'The forward pass reached MLP2 at step 30',
  );
  await expect(page.getByTestId('passed')).toContainText('In layers 2-3');
});

test('entries of one point are told apart, in u8 too', async ({ page, recorded }) => {
  await open(page, recorded);
  // Those that are not traced stand in a group behind them.
  await expect(page.getByTestId('point').locator('> option')).toHaveText(kShown);
  await show(page, 'FinalNorm', 'tile-map');
  await expect(page.getByRole('heading', { name: 'FinalNorm: tiles × tokens' })).toBeVisible();
  await expect(page.locator('main')).not.toContainText('L0');
  await hoverTile(page, 6, 30, kTiles, kTokens);
  expect(await tipValue(page)).toBe(digits(recorded.expected.values('norm', 0, 30)[30 * 8 + 6]));
  await page.screenshot({ path: 'test-results/outside.png' });
  await show(page, 'HiddenStates · gradient', 'tile-map');
  await hoverTile(page, 6, 30, kTiles, kTokens);
  const sent = recorded.expected.values('gradient', 1, 30)[30 * 8 + 6];
  expect(await tipValue(page)).toBeCloseTo(sent, 8);
  await show(page, 'HiddenStates', 'tile-map');
  await hoverTile(page, 6, 30, kTiles, kTokens);
  expect(await tipValue(page)).toBe(digits(recorded.expected.tile(1, 30, 30, 6)));
  await page.locator('body').press(']');
  await expect(page.getByTestId('point')).toHaveValue('MLP1');
});

test('no serious finding of axe in the other views', async ({ page, recorded }) => {
  test.slow();
  await open(page, recorded);
  for (const name of kShown.slice(1)) {
    await page.getByTestId('point').selectOption(name);
    await idle(page);
    expect(await seriousOf(page)).toEqual([]);
  }
});

test('statistics grow since a step, sort by a column, and stand in a map', async ({
  page,
  recorded,
}) => {
  const { expected } = recorded;
  await open(page, recorded);
  await show(page, 'HiddenStates · stats', 'stats-table');
  await advance(page, recorded, 5);
  const growth = (layer: number): number =>
    expected.stat(layer, 35, kRms) / expected.stat(layer, kFirst, kRms);
  const readout = page.getByTestId('layer-readout');
  await page.getByTestId('growth').click();
  await expect(page.getByTestId('since')).toHaveValue(String(kFirst));
  await expect(readout).toContainText(`L1 ${growth(1).toPrecision(4)}`);
  await expect(readout).toContainText(`L4 ${growth(4).toPrecision(4)}`);
  // The layer that grows fastest stands first.
  const order = [1, 2, 3, 4].sort((one, other) => growth(other) - growth(one));
  await page.getByTestId('sort-growth').click();
  const names = page.getByTestId('stats-table').getByRole('button', { name: /^L\d$/ });
  await expect(names).toHaveText(order.map((layer) => `L${layer}`));
  await page.getByTestId('sort-growth').click();
  await expect(names).toHaveText(order.reverse().map((layer) => `L${layer}`));
  await choose(page, 'map');
  const map = page.getByTestId('stat-map');
  await map.hover({ position: await spotOf(map, 1, 34, kLayers, kSteps) });
  await expect(page.getByTestId('tip-value')).toHaveText(growth(2).toPrecision(5));
  const search = new URL(page.url()).searchParams;
  expect(['since', 'sort', 'statas'].map((name) => search.get(name))).toEqual([
    String(kFirst),
    'growth',
    'map',
  ]);
  await page.getByTestId('growth').click();
  // Numbers 3, 4 and 6 of a record.
  for (const [name, index] of [
    ['min', 3],
    ['max', 4],
    ['zeros', 6],
  ] as const) {
    await page.getByTestId('stat').selectOption(name);
    await map.hover({ position: await spotOf(map, 2, 34, kLayers, kSteps) });
    const value = expected.stat(3, 35, index);
    const shown = value === 0 ? '0' : value.toPrecision(5).replace('-', '−');
    await expect(page.getByTestId('tip-value')).toHaveText(shown);
  }
});
