import AxeBuilder from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';
import {
  attentionAt,
  kPromptSet,
  kSequence,
  logitAt,
  kStatsWidth,
  projectionAt,
  statAt,
  tileValue,
  tokenAt,
} from './fake_data.ts';
import {
  advance,
  choose,
  digits,
  hoverTile,
  idle,
  kSmoke,
  open,
  pixels,
  spotOf,
  test,
  tipValue,
  watch,
} from './support.ts';

// What the maps of layers and tiles cannot show: every other compressor, attention, gradients.

const kKurtosis = kStatsWidth;
const kRms = kStatsWidth + 1;

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
  hub,
}) => {
  watch(hub, { point: 'HiddenStates', compressor: { kind: 'stats' } });
  await open(page, hub, 'stats-table');
  await advance(page, hub, 5);
  const table = page.getByTestId('stats-table');
  await expect(table.getByRole('row')).toHaveCount(5);
  const cells = table.getByRole('row').nth(3).getByRole('cell');
  await expect(cells.nth(1)).toHaveText(statAt(3, 125, 1).toPrecision(4));
  await expect(cells.nth(3)).toHaveText(statAt(3, 125, kRms).toPrecision(4));
  await expect(cells.nth(5)).toHaveText(statAt(3, 125, kKurtosis).toPrecision(4));
  await expect(cells.nth(6)).toHaveText(statAt(3, 125, kKurtosis + 3).toPrecision(4));
  await expect(cells.nth(6)).toHaveAttribute('title', /^from [\d.]+ to [\d.]+$/);
  await table.getByRole('button', { name: 'L3' }).click();
  await expect(page.getByTestId('layer')).toHaveValue('3');
  await expect(page.getByRole('heading', { name: 'Layer 3: histogram' })).toBeVisible();
  const curves = page.getByLabel('Root mean square of HiddenStates by step, one line per layer');
  await idle(page);
  expect((await pixels(curves.locator('canvas'))).colors).toBeGreaterThan(20);
  const readout = page.getByTestId('layer-readout');
  await expect(readout).toContainText(`L4 ${statAt(4, 125, kRms).toPrecision(4)}`);
  await page.getByTestId('stat').selectOption('kurtosis');
  await expect(readout).toContainText(`L4 ${statAt(4, 125, kKurtosis).toPrecision(4)}`);
  await idle(page);
  expect(new URL(page.url()).search).toContain('stat=kurtosis');
  await page.getByTestId('histogram').hover();
  await expect(page.getByTestId('bin')).toContainText('≤ |x| <');
  await page.screenshot({ path: 'test-results/stats.png' });
});

test('projections of prompts: is the run turning?', kSmoke, async ({ page, hub }) => {
  const vectors = ['evil', 'sycophancy'];
  const compressor = { kind: 'projection', vectors };
  watch(
    hub,
    { point: 'HiddenStates', prompts: 'probes', compressor },
    { point: 'InputTokens', prompts: 'probes' },
  );
  await open(page, hub, 'projection-map');
  for (let i = 0; i < 20; i++) hub.advance();
  await expect(page.getByTestId('shown-step')).toHaveText('step 140');
  await expect(page.getByTestId('point')).toHaveValue('HiddenStates · probes · projection');
  await idle(page);
  const readout = page.getByTestId('layer-readout');
  const last = kPromptSet.prompts[0].length - 1;
  await expect(readout).toContainText(`L2 ${projectionAt(2, 140, 0, last, 0).toPrecision(4)}`);
  const curves = page.getByLabel('Projection of HiddenStates on evil by step', { exact: false });
  expect((await pixels(curves.locator('canvas'))).colors).toBeGreaterThan(20);
  await hoverCell(page, 'projection-map', [2, 5], [4, last + 1]);
  expect(await tipValue(page)).toBe(digits(projectionAt(3, 140, 0, 5, 0)));
  await expect(page.getByTestId('tip')).toContainText('on evil');
  await expect(page.getByTestId('token-colors').locator('.at')).toHaveText('u');

  // The second prompt is shorter: its last token, not the filling behind it.
  await page.getByTestId('row').selectOption({ label: '1 def f(' });
  await page.getByTestId('vector').selectOption('sycophancy');
  const end = kPromptSet.prompts[1].length - 1;
  await expect(readout).toContainText(
    `L4 ${projectionAt(4, 140, 1, end, 1).toPrecision(4).replace('-', '−')}`,
  );
  await page.mouse.move(5, 5);
  await expect(page.getByTestId('token-colors')).toHaveText('def f(');
  await page.getByRole('button', { name: 'mean' }).click();
  let sum = 0;
  for (let token = 0; token <= end; token++) sum += projectionAt(1, 140, 1, token, 1);
  const mean = (sum / (end + 1)).toPrecision(4).replace('-', '−');
  await expect(readout).toContainText(`L1 ${mean}`);
  await idle(page);
  expect(new URL(page.url()).search).toContain('over=mean');
  await page.screenshot({ path: 'test-results/projection.png' });
});

test('attention: a head, its queries and keys', kSmoke, async ({ page, hub }) => {
  const tokens = [0, 48] as const;
  watch(hub, { point: 'RawAttentionScore', compressor: { kind: 'none' }, tokens });
  await open(page, hub, 'attention-map');
  await page.getByTestId('head').selectOption('2');
  await page.getByTestId('layer').selectOption('3');
  await idle(page);
  await expect(page.getByRole('heading', { name: 'Layer 3, head 2: queries' })).toBeVisible();
  await hoverCell(page, 'attention-map', [40, 35], [48, kSequence]);
  expect(await tipValue(page)).toBe(digits(attentionAt(3, 2, 40, 35, 120)));
  const tip = page.getByTestId('tip');
  await expect(tip).toContainText(`position 35, id ${tokenAt(120, 35)}`);
  await expect(tip).toContainText('position 40');
  await hoverCell(page, 'attention-map', [10, 100], [48, kSequence]);
  expect(await tipValue(page)).toBe(0);
  expect((await pixels(page.getByTestId('attention-map'))).colors).toBeGreaterThan(20);
  await page.screenshot({ path: 'test-results/attention.png' });
});

test('the best next tokens of the logits', async ({ page, hub }) => {
  watch(hub, { point: 'Logits', compressor: { kind: 'topk', k: 5 } });
  await open(page, hub, 'topk-map');
  await hoverCell(page, 'topk-map', [1, 8], [5, kSequence]);
  const { id, value } = logitAt(120, 8, 1);
  expect(await tipValue(page)).toBe(digits(value));
  await expect(page.getByTestId('tip')).toContainText(`id ${id}`);
  const best = page.getByTestId('best').getByRole('listitem');
  await expect(best).toHaveCount(5);
  await expect(best.nth(1)).toContainText(String.fromCharCode(id));
  await expect(best.nth(1)).toContainText(digits(value, 4).toFixed(2));
  await expect(page.getByRole('heading', { name: 'Logits: largest × tokens' })).toBeVisible();
  await expect(page.getByTestId('layer').locator('option')).toHaveText(['Logits']);
  await page.screenshot({ path: 'test-results/topk.png' });
});

test('an empty record tells that the point was passed', async ({ page, hub }) => {
  watch(hub, { point: 'MLP2', layers: '2-3', compressor: { kind: 'empty' } });
  await open(page, hub, 'passed');
  await expect(page.getByTestId('passed')).toContainText(
    'The forward pass reached MLP2 at step 120',
  );
  await expect(page.getByTestId('passed')).toContainText('In layers 2-3');
});

test('entries of one point are told apart, in u8 too', async ({ page, hub }) => {
  const compressor = { kind: 'tile', tiles: 32 };
  watch(
    hub,
    { point: 'FinalNorm', compressor },
    { point: 'HiddenStates', direction: 'gradient', dtype: 'u8', compressor },
    { point: 'HiddenStates', compressor: { kind: 'stats' } },
    { point: 'HiddenStates', compressor: { kind: 'tile', tiles: 64 } },
  );
  await open(page, hub);
  // Those that are not traced stand in a group behind them.
  await expect(page.getByTestId('point').locator('> option')).toHaveText([
    'FinalNorm',
    'HiddenStates · gradient',
    'HiddenStates · stats',
    'HiddenStates',
  ]);
  await expect(page.getByRole('heading', { name: 'FinalNorm: tiles × tokens' })).toBeVisible();
  await expect(page.locator('main')).not.toContainText('L0');
  await page.screenshot({ path: 'test-results/outside.png' });
  await page.getByTestId('point').selectOption('HiddenStates · gradient');
  await idle(page);
  await hoverTile(page, 9, 30, 32);
  const tiles = Array.from({ length: 32 }, (_, tile) => tileValue(7, 1, 120, 30, tile, 32));
  const half = (Math.max(...tiles) - Math.min(...tiles)) / 504;
  expect(Math.abs((await tipValue(page)) - tiles[9])).toBeLessThan(half * 1.01);
  await page.getByTestId('point').selectOption('HiddenStates');
  await idle(page);
  await hoverTile(page, 9, 30);
  expect(await tipValue(page)).toBe(digits(tileValue(7, 1, 120, 30, 9, 64)));
  await page.locator('body').press('[');
  await expect(page.getByTestId('stats-table')).toBeVisible();
});

test('no serious finding of axe in the other views', async ({ page, hub }) => {
  watch(
    hub,
    { point: 'HiddenStates', compressor: { kind: 'stats' } },
    { point: 'HiddenStates', compressor: { kind: 'projection', vectors: ['evil'] } },
    { point: 'Logits' },
    { point: 'RawAttentionScore', tokens: [0, 16] },
  );
  await open(page, hub, 'stats-table');
  for (const name of ['HiddenStates · projection', 'Logits', 'RawAttentionScore', '']) {
    if (name !== '') await page.getByTestId('point').selectOption(name);
    else await page.locator('body').press(']');
    await idle(page);
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations.filter(
      ({ impact }) => impact === 'serious' || impact === 'critical',
    );
    const found = serious.flatMap(({ id, nodes }) =>
      nodes.map((node) => `${name} ${id}: ${String(node.target[0])} ${node.failureSummary ?? ''}`),
    );
    expect(found).toEqual([]);
  }
});

test('statistics grow since a step, sort by a column, and stand in a map', async ({
  page,
  hub,
}) => {
  hub.firstKept = hub.step;
  watch(hub, { point: 'HiddenStates', compressor: { kind: 'stats' } });
  await open(page, hub, 'stats-table');
  await advance(page, hub, 5);
  const growth = (layer: number): string =>
    (statAt(layer, 125, kRms) / statAt(layer, 120, kRms)).toPrecision(4);
  const readout = page.getByTestId('layer-readout');
  await page.getByTestId('growth').click();
  await expect(page.getByTestId('since')).toHaveValue('120');
  await expect(readout).toContainText(`L1 ${growth(1)}`);
  await expect(readout).toContainText(`L4 ${growth(4)}`);
  // The layer that grows fastest stands first.
  await page.getByTestId('sort-growth').click();
  const rows = page.getByTestId('stats-table').getByRole('row');
  await expect(rows.nth(1)).toContainText('L1');
  await expect(rows.nth(4)).toContainText('L4');
  await page.getByTestId('sort-growth').click();
  await expect(rows.nth(1)).toContainText('L4');
  await choose(page, 'map');
  const map = page.getByTestId('stat-map');
  await map.hover({ position: await spotOf(map, 1, 5, 4, 6) });
  await expect(page.getByTestId('tip-value')).toHaveText(
    (statAt(2, 125, kRms) / statAt(2, 120, kRms)).toPrecision(5),
  );
  const search = new URL(page.url()).searchParams;
  expect(['since', 'sort', 'statas'].map((name) => search.get(name))).toEqual([
    '120',
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
    await map.hover({ position: await spotOf(map, 2, 5, 4, 6) });
    const shown = statAt(3, 125, index).toPrecision(5).replace('-', '−');
    await expect(page.getByTestId('tip-value')).toHaveText(shown);
  }
});
