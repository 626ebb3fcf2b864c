import AxeBuilder from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';
import {
  type Expected,
  kFullBefore,
  kLayers,
  kQueries,
  kTiles,
  kTokens,
  type Replay,
  test,
} from './recorded.ts';
import { digits, hoverTile, idle, kSmoke, open, spotOf, tipValue } from './support.ts';

async function compare(page: Page, recorded: Replay, query = ''): Promise<void> {
  await page.goto(recorded.at(`tab=compare${query}`));
  await expect(page.getByTestId('side-B')).toBeVisible();
  await idle(page);
}

async function valueAt(
  page: Page,
  testid: string,
  [row, col]: readonly [number, number],
): Promise<number> {
  const map = page.getByTestId(testid);
  const rows = testid.includes('tiles') ? kTiles : kLayers;
  const axis = testid.includes('layers') ? 18 : 0;
  const spot = await spotOf(map, row, col, rows, kTokens);
  const box = await map.boundingBox();
  // Layer maps of this view have no axis of columns.
  const y = ((row + 0.5) / rows) * ((box?.height ?? 0) - 18 + axis);
  await map.hover({ position: { x: spot.x, y } });
  return tipValue(page);
}

const f32 = Math.fround;

/** What the comparison of the cell of tile 5 and token 7 of layer 2 shows. */
async function checkCell(page: Page, a: number, b: number): Promise<void> {
  expect(await valueAt(page, 'compare-tiles-a', [5, 7])).toBe(digits(a));
  expect(await valueAt(page, 'compare-tiles-b', [5, 7])).toBe(digits(b));
  expect(await valueAt(page, 'compare-tiles-difference', [5, 7])).toBe(
    Number((a - b).toPrecision(7)),
  );
}

/** The mean over the tiles of a token. */
function meanOf(expected: Expected, layer: number, step: number, token: number): number {
  let sum = 0;
  for (let at = 0; at < kTiles; at++) sum += expected.tile(layer, step, token, at);
  return f32(sum / kTiles);
}

test('two steps of the run: A, B, and their difference in the same place', async ({
  page,
  recorded,
}) => {
  const { expected } = recorded;
  await compare(page, recorded, '&layer=2');
  await expect(page.getByTestId('compare-note')).toContainText('A and B are the same');
  await page.getByTestId('step-B').fill('10');
  await page.getByTestId('step-B').press('Enter');
  await expect(page.getByRole('heading', { name: 'B, step 10: L2' })).toBeVisible();
  await idle(page);
  await checkCell(page, expected.tile(2, 30, 7, 5), expected.tile(2, 10, 7, 5));
  await expect(page.getByTestId('compare-note')).toContainText('A and B have different tokens');
  const difference = await valueAt(page, 'compare-layers-difference', [2, 7]);
  const means = [30, 10].map((step) => meanOf(expected, 3, step, 7));
  expect(difference).toBeCloseTo(means[0] - means[1], 6);
  // One scale for both: the same ends in both legends.
  const ends = (name: string): Promise<string> =>
    page.getByLabel(`Colour legend of the ${name}`).locator('.high').innerText();
  expect(await ends('A, step 30: L2')).toBe(await ends('B, step 10: L2'));
  expect(new URL(page.url()).searchParams.get('stepb')).toBe('10');
});

test.describe('two phases', () => {
  test.use({ firstStep: 20 });

  test('training against evaluation, at one step and at another', async ({ page, recorded }) => {
    const { expected } = recorded;
    await compare(page, recorded, '&layer=2');
    await page.getByLabel('Phase of B').selectOption('eval');
    await expect(page.getByTestId('compare-note')).toContainText('A and B have different tokens');
    await idle(page);
    await checkCell(page, expected.tile(2, 20, 7, 5), expected.tile(2, 20, 7, 5, 'eval'));
    expect(new URL(page.url()).searchParams.get('phaseb')).toBe('eval');
    await page.getByTestId('step-A').fill('10');
    await page.getByTestId('step-A').press('Enter');
    await expect(page.getByRole('heading', { name: 'A, step 10: L2' })).toBeVisible();
    await idle(page);
    await checkCell(page, expected.tile(2, 10, 7, 5), expected.tile(2, 20, 7, 5, 'eval'));
  });
});

test('a step is typed while others come', kSmoke, async ({ page, recorded }) => {
  await compare(page, recorded, '&layer=2');
  const field = page.getByTestId('step-A');
  await field.press('Control+a');
  await field.press('2');
  await recorded.advance();
  await expect(page.getByRole('heading', { name: 'A, step 31: L2' })).toBeVisible();
  await idle(page);
  await field.press('0');
  await field.press('Enter');
  await expect(page.getByRole('heading', { name: 'A, step 20: L2' })).toBeVisible();
  await field.press('Tab');
  await expect(field).toHaveValue('20');
  await page.getByLabel('Newest step of A').click();
  await expect(field).toHaveValue('31');
});

test.describe('another recording', () => {
  test.use({ compares: true });

  test('is a separate side, and its records stay apart', async ({ page, recorded, baseline }) => {
    await compare(page, recorded, '&layer=2');
    await page.getByLabel('Run of B').selectOption('baseline');
    await expect(page.getByRole('heading', { name: 'B, step 15: L2' })).toBeVisible();
    await page.getByTestId('step-A').fill('15');
    await page.getByTestId('step-A').press('Enter');
    await expect(page.getByRole('heading', { name: 'A, step 15: L2' })).toBeVisible();
    await idle(page);
    const [a, b] = [recorded.expected, baseline].map((of) => of.tile(2, 15, 7, 5));
    expect(a).not.toBe(b);
    await checkCell(page, a, b);
    // Both have trained on the same text.
    await expect(page.getByTestId('compare-note')).toHaveText('');
    await page.getByTestId('tab-tensors').click();
    await expect(page.getByTestId('shown-step')).toHaveText('step 15');
    await idle(page);
    await hoverTile(page, 5, 7, kTiles, kTokens);
    expect(await tipValue(page)).toBe(digits(a));
  });

  test('cannot be compared in everything, and that is said', async ({ page, recorded }) => {
    await compare(page, recorded);
    await page.getByLabel('Run of B').selectOption('baseline');
    const reason = page.getByTestId('not-compared');
    const choose = async (point: string): Promise<void> => {
      await page.getByTestId('point').selectOption(point);
    };
    await choose('MLP1');
    await expect(reason).toHaveText(/A is 4 tiles × 32 tokens, B 2 tiles/);
    await choose('FinalNorm');
    await expect(reason).toHaveText(/A has the mean of each tile, B has the sum/);
    await choose('RawAttentionScore');
    await expect(reason).toHaveText('baseline (B) does not trace RawAttentionScore.');
    await page.screenshot({ path: 'test-results/compare-reason.png' });
    await compare(page, recorded, `&runb=${'9'.repeat(16)}`);
    await expect(reason).toHaveText(/offers no run 9{16}: it is not in this run's folder/);
  });
});

/** Entries of the recorded plan, one of each form. */
const kPoints = [
  'HiddenStates',
  'HiddenStates · stats',
  'HiddenStates · projection',
  'RawAttentionScore',
  'Logits',
] as const;

test('statistics, projections, attention and the largest', async ({ page, recorded }) => {
  const { expected } = recorded;
  await compare(page, recorded, `&stepb=${kFullBefore}&point=HiddenStates+·+stats&layer=3`);
  const row = page.getByTestId('compare-stats').getByRole('row').nth(2);
  const means = [30, kFullBefore].map((step) => expected.stat(3, step, 1));
  await expect(row.getByRole('cell')).toHaveText([
    signed(means[0].toPrecision(5)),
    signed(means[1].toPrecision(5)),
    signed((means[0] - means[1]).toPrecision(5), '+'),
  ]);
  await page.getByTestId('point').selectOption('HiddenStates · projection');
  await expect(page.getByTestId('compare-layers-b')).toBeVisible();
  await idle(page);
  const along = expected.projection(2, 30, 7) - expected.projection(2, kFullBefore, 7);
  const map = page.getByTestId('compare-layers-difference');
  await map.hover({ position: await spotOf(map, 1, 7, kLayers, kTokens) });
  expect(await tipValue(page)).toBe(Number(along.toPrecision(7)));
  await page.getByTestId('point').selectOption('RawAttentionScore');
  await page.getByTestId('head').selectOption('1');
  await expect(page.getByRole('heading', { name: 'B, step 15: head 1' })).toBeVisible();
  await idle(page);
  const score = (step: number): number => expected.attention(3, 1, 12, 9, step);
  const scores = page.getByTestId('compare-attention-difference');
  await scores.hover({ position: await spotOf(scores, 12, 9, kQueries, kTokens) });
  expect(await tipValue(page)).toBe(Number((score(30) - score(kFullBefore)).toPrecision(7)));
  await page.getByTestId('point').selectOption('Logits');
  await expect(page.getByTestId('changed-count')).toContainText(`of ${kTokens} tokens`);
  const places = Array.from({ length: kTokens }, (_, at) => at);
  const best = (step: number, at: number): number => expected.best(step, at, 0).id;
  const changed = places.filter((at) => best(30, at) !== best(kFullBefore, at));
  expect(changed.length).toBeGreaterThan(0);
  await expect(page.getByTestId('changed-count')).toContainText(`at ${changed.length}`);
  await expect(page.getByTestId('changed').locator('tbody tr')).toHaveCount(changed.length);
});

/** A number as the page writes it. */
function signed(text: string, plus = ''): string {
  return text.startsWith('-') ? text.replace('-', '−') : plus + text;
}

for (const colorScheme of ['dark', 'light'] as const) {
  test(`pictures and axe of every comparison, ${colorScheme}`, async ({ page, recorded }) => {
    test.slow();
    await page.emulateMedia({ colorScheme });
    await compare(page, recorded, `&stepb=${kFullBefore}&layer=3`);
    for (const [index, point] of kPoints.entries()) {
      await page.getByTestId('point').selectOption(point);
      await expect(page.getByTestId('side-B')).not.toContainText('loading');
      await idle(page);
      await page.screenshot({ path: `test-results/compare-${index}-${colorScheme}.png` });
      const { violations } = await new AxeBuilder({ page })
        .exclude('[data-testid="changed"] tbody tr:nth-child(n + 12)')
        .analyze();
      const serious = violations.filter(
        ({ impact }) => impact === 'serious' || impact === 'critical',
      );
      expect(
        serious.map(({ id, nodes }) => `${point} ${id} ${String(nodes[0]?.target[0])}`),
      ).toEqual([]);
    }
  });
}

test('the tab is reached by keyboard, and the arrows move A alone', async ({ page, recorded }) => {
  await open(page, recorded);
  await page.locator('body').press('5');
  await expect(page.getByTestId('side-A')).toBeVisible();
  await page.locator('body').press('ArrowLeft');
  await expect(page.getByTestId('step-A')).toHaveValue('29');
  await expect(page.getByTestId('step-B')).toHaveValue('30');
});
