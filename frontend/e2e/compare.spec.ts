import AxeBuilder from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';
import { tileValue } from './fake_data.ts';
import type { OtherPast } from './fake_history.ts';
import type { FakeHub } from './fake_hub.ts';
import type { Entry } from './fake_tensors.ts';
import { type Expected, kLayers, kQueries, kTiles, kTokens, test } from './recorded.ts';
import { digits, idle, kSmoke, open, spotOf, tipValue } from './support.ts';

const kHidden = 7;
const kOtherId = '0a0b0c0d0e0f1011';

/** A recording like the run, but every number is larger by 0.125. */
function other(hub: FakeHub, change: Partial<OtherPast> = {}): OtherPast {
  return {
    id: kOtherId,
    name: 'baseline',
    first: 1,
    last: 90,
    holes: new Set(),
    plan: hub.plan,
    trail: [],
    value: (...place) => Math.fround(Math.fround(tileValue(...place)) + 0.125),
    ...change,
  };
}

async function compare(page: Page, { url }: { readonly url: string }, query = ''): Promise<void> {
  const [address, token] = url.split('#');
  await page.goto(`${address}?tab=compare${query}#${token ?? ''}`);
  await expect(page.getByTestId('side-B')).toBeVisible();
  await idle(page);
}

async function valueAt(
  page: Page,
  testid: string,
  [row, col]: readonly [number, number],
  [tiles, tokens]: readonly [number, number] = [kTiles, kTokens],
): Promise<number> {
  const map = page.getByTestId(testid);
  const rows = testid.includes('tiles') ? tiles : kLayers;
  const axis = testid.includes('layers') ? 18 : 0;
  const spot = await spotOf(map, row, col, rows, tokens);
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

test('a step is typed while others come', kSmoke, async ({ page, hub }) => {
  await compare(page, hub, '&layer=2');
  const field = page.getByTestId('step-A');
  await field.press('Control+a');
  await field.press('4');
  hub.advance();
  await expect(page.getByRole('heading', { name: 'A, step 121: L2' })).toBeVisible();
  await idle(page);
  await field.press('0');
  await field.press('Enter');
  await expect(page.getByRole('heading', { name: 'A, step 40: L2' })).toBeVisible();
  await field.press('Tab');
  await expect(field).toHaveValue('40');
  await page.getByLabel('Newest step of A').click();
  await expect(field).toHaveValue('121');
});

test('another recording is a side of its own, and its records stay apart', async ({
  page,
  hub,
}) => {
  hub.others = [other(hub)];
  await compare(page, hub);
  await page.getByLabel('Run of B').selectOption('baseline');
  await expect(page.getByRole('heading', { name: 'B, step 90: L1' })).toBeVisible();
  await page.getByTestId('step-A').fill('90');
  await page.getByTestId('step-A').press('Enter');
  await expect(page.getByRole('heading', { name: 'A, step 90: L1' })).toBeVisible();
  await idle(page);
  const a = f32(tileValue(kHidden, 1, 90, 30, 9, 64));
  const b = f32(a + 0.125);
  const at = (side: string): Promise<number> =>
    valueAt(page, `compare-tiles-${side}`, [9, 30], [64, 256]);
  expect(await at('a')).toBe(digits(a));
  expect(await at('b')).toBe(digits(b));
  expect(await at('difference')).toBe(Number((a - b).toPrecision(7)));
  await expect(page.getByTestId('compare-note')).toHaveText('');
  await page.getByTestId('tab-tensors').click();
  await expect(page.getByTestId('shown-step')).toHaveText('step 90');
  await idle(page);
  await page.getByTestId('tile-map').hover({
    position: await spotOf(page.getByTestId('tile-map'), 9, 30, 64),
  });
  expect(await tipValue(page)).toBe(Number(a.toPrecision(7)));
});

test('what cannot be compared is said', async ({ page, hub }) => {
  const tiles = (count: number, method?: string): Entry => ({
    point: 'HiddenStates',
    compressor: { kind: 'tile', tiles: count, ...(method === undefined ? {} : { method }) },
  });
  const planOf = (entry: Entry): OtherPast['plan'] => ({ number: 1, entries: [entry] });
  hub.others = [
    other(hub, { id: '1'.repeat(16), name: 'coarse', plan: planOf(tiles(16)) }),
    other(hub, { id: '2'.repeat(16), name: 'sums', plan: planOf(tiles(64, 'sum')) }),
    other(hub, { id: '3'.repeat(16), name: 'else', plan: planOf({ point: 'MLP2' }) }),
  ];
  await compare(page, hub);
  const reason = page.getByTestId('not-compared');
  const choose = async (name: string): Promise<void> => {
    await page.getByLabel('Run of B').selectOption(name);
  };
  await choose('coarse');
  await expect(reason).toHaveText(/A is 64 tiles × 256 tokens, B 16 tiles/);
  await choose('sums');
  await expect(reason).toHaveText(/A holds the mean of each tile, B the sum/);
  await choose('else');
  await expect(reason).toHaveText('else (B) does not trace HiddenStates.');
  await page.screenshot({ path: 'test-results/compare-reason.png' });
  await compare(page, hub, `&runb=${'9'.repeat(16)}`);
  await expect(reason).toHaveText(/offers no run 9{16}: it is not in this run's folder/);
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
  await compare(page, recorded, '&stepb=10&point=HiddenStates+·+stats&layer=3');
  const row = page.getByTestId('compare-stats').getByRole('row').nth(2);
  const means = [30, 10].map((step) => expected.stat(3, step, 1));
  await expect(row.getByRole('cell')).toHaveText([
    signed(means[0].toPrecision(5)),
    signed(means[1].toPrecision(5)),
    signed((means[0] - means[1]).toPrecision(5), '+'),
  ]);
  await page.getByTestId('point').selectOption('HiddenStates · projection');
  await expect(page.getByTestId('compare-layers-b')).toBeVisible();
  await idle(page);
  const along = expected.projection(2, 30, 7) - expected.projection(2, 10, 7);
  const map = page.getByTestId('compare-layers-difference');
  await map.hover({ position: await spotOf(map, 1, 7, kLayers, kTokens) });
  expect(await tipValue(page)).toBe(Number(along.toPrecision(7)));
  await page.getByTestId('point').selectOption('RawAttentionScore');
  await page.getByTestId('head').selectOption('1');
  await expect(page.getByRole('heading', { name: 'B, step 10: head 1' })).toBeVisible();
  await idle(page);
  const score = (step: number): number => expected.attention(3, 1, 12, 9, step);
  const scores = page.getByTestId('compare-attention-difference');
  await scores.hover({ position: await spotOf(scores, 12, 9, kQueries, kTokens) });
  expect(await tipValue(page)).toBe(Number((score(30) - score(10)).toPrecision(7)));
  await page.getByTestId('point').selectOption('Logits');
  await expect(page.getByTestId('changed-count')).toContainText(`of ${kTokens} tokens`);
  const places = Array.from({ length: kTokens }, (_, at) => at);
  const best = (step: number, at: number): number => expected.best(step, at, 0).id;
  const changed = places.filter((at) => best(30, at) !== best(10, at));
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
    await compare(page, recorded, '&stepb=10&layer=3');
    for (const [index, point] of kPoints.entries()) {
      await page.getByTestId('point').selectOption(point);
      await expect(page.getByTestId('side-B')).not.toContainText('asking');
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
