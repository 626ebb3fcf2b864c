import AxeBuilder from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';
import { attentionAt, kLayers, kSequence, projectionAt, statAt, tileValue } from './fake_data.ts';
import type { OtherPast } from './fake_history.ts';
import type { FakeHub } from './fake_hub.ts';
import type { Entry } from './fake_tensors.ts';
import { idle, kSmoke, open, spotOf, test, tipValue } from './support.ts';

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
    stat: statAt,
    value: (...place) => Math.fround(Math.fround(tileValue(...place)) + 0.125),
    ...change,
  };
}

async function compare(page: Page, hub: FakeHub, query = ''): Promise<void> {
  await page.goto(hub.url.replace('/#', `/?tab=compare${query}#`));
  await expect(page.getByTestId('side-B')).toBeVisible();
  await idle(page);
}

async function valueAt(page: Page, testid: string, row: number, col: number): Promise<number> {
  const map = page.getByTestId(testid);
  const rows = testid.includes('tiles') ? 64 : kLayers;
  const axis = testid.includes('layers') ? 18 : 0;
  const spot = await spotOf(map, row, col, rows);
  const box = await map.boundingBox();
  // Layer maps of this view have no axis of columns.
  const y = ((row + 0.5) / rows) * ((box?.height ?? 0) - 18 + axis);
  await map.hover({ position: { x: spot.x, y } });
  return tipValue(page);
}

const f32 = Math.fround;
const tile = (layer: number, step: number, token: number, at: number): number =>
  f32(tileValue(kHidden, layer, step, token, at, 64));

test('two steps of the run: A, B, and their difference in the same place', async ({
  page,
  hub,
}) => {
  await compare(page, hub, '&layer=2');
  await expect(page.getByTestId('compare-note')).toContainText('A and B are the same');
  await page.getByTestId('step-B').fill('40');
  await page.getByTestId('step-B').press('Enter');
  await expect(page.getByRole('heading', { name: 'B, step 40: L2' })).toBeVisible();
  await idle(page);
  const [a, b] = [tile(2, 120, 30, 9), tile(2, 40, 30, 9)];
  expect(await valueAt(page, 'compare-tiles-a', 9, 30)).toBe(Number(a.toPrecision(7)));
  expect(await valueAt(page, 'compare-tiles-b', 9, 30)).toBe(Number(b.toPrecision(7)));
  expect(await valueAt(page, 'compare-tiles-difference', 9, 30)).toBe(
    Number((a - b).toPrecision(7)),
  );
  await expect(page.getByTestId('compare-note')).toContainText('A and B have different tokens');
  const mean = (step: number): number => {
    let sum = 0;
    for (let at = 0; at < 64; at++) sum += tile(3, step, 30, at);
    return f32(sum / 64);
  };
  const difference = await valueAt(page, 'compare-layers-difference', 2, 30);
  expect(difference).toBe(Number((mean(120) - mean(40)).toPrecision(7)));
  // One scale for both: the same ends in both legends.
  const ends = (name: string): Promise<string> =>
    page.getByLabel(`Colour legend of the ${name}`).locator('.high').innerText();
  expect(await ends('A, step 120: L2')).toBe(await ends('B, step 40: L2'));
  expect(new URL(page.url()).searchParams.get('stepb')).toBe('40');
});

test('two phases: training against evaluation, at one step and at another', async ({
  page,
  hub,
}) => {
  const phases = ['train', 'eval'];
  const compressor = { kind: 'tile', tiles: 64 };
  hub.plan = {
    number: 1,
    entries: [
      { point: 'HiddenStates', phases, compressor },
      { point: 'InputTokens', phases },
    ],
  };
  hub.evaluates = true;
  await compare(page, hub, '&layer=2');
  await page.getByLabel('Phase of B').selectOption('eval');
  await expect(page.getByTestId('compare-note')).toHaveText('');
  await idle(page);
  const evaluated = (step: number): number => f32(hub.value(kHidden, 2, step, 30, 9, 64) - 1);
  const check = async (stepB: number): Promise<void> => {
    const [a, b] = [tile(2, 120, 30, 9), evaluated(stepB)];
    expect(await valueAt(page, 'compare-tiles-a', 9, 30)).toBe(Number(a.toPrecision(7)));
    expect(await valueAt(page, 'compare-tiles-b', 9, 30)).toBe(Number(b.toPrecision(7)));
    expect(await valueAt(page, 'compare-tiles-difference', 9, 30)).toBe(
      Number((a - b).toPrecision(7)),
    );
  };
  await check(120);
  expect(new URL(page.url()).searchParams.get('phaseb')).toBe('eval');
  await page.getByTestId('step-B').fill('40');
  await page.getByTestId('step-B').press('Enter');
  const heading = page.getByRole('heading', { name: 'B, step 40: L2' });
  await expect(heading).toBeVisible({ timeout: 10_000 });
  await idle(page);
  await check(40);
  await page.getByLabel('Phase of A').selectOption('eval');
  await page.getByTestId('step-A').fill('40');
  await page.getByTestId('step-A').press('Enter');
  await expect(page.getByTestId('compare-note')).toContainText('A and B are the same');
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
  const a = tile(1, 90, 30, 9);
  const b = f32(a + 0.125);
  expect(await valueAt(page, 'compare-tiles-a', 9, 30)).toBe(Number(a.toPrecision(7)));
  expect(await valueAt(page, 'compare-tiles-b', 9, 30)).toBe(Number(b.toPrecision(7)));
  expect(await valueAt(page, 'compare-tiles-difference', 9, 30)).toBe(
    Number((a - b).toPrecision(7)),
  );
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
  await expect(reason).toHaveText(/A has the mean of each tile, B has the sum/);
  await choose('else');
  await expect(reason).toHaveText('else (B) does not trace HiddenStates.');
  await page.screenshot({ path: 'test-results/compare-reason.png' });
  await compare(page, hub, `&runb=${'9'.repeat(16)}`);
  await expect(reason).toHaveText(/offers no run 9{16}: it is not in this run's folder/);
});

const kEntries: readonly Entry[] = [
  { point: 'HiddenStates', compressor: { kind: 'tile', tiles: 64 } },
  { point: 'HiddenStates', compressor: { kind: 'stats' } },
  { point: 'HiddenStates', compressor: { kind: 'projection', vectors: ['evil'] } },
  { point: 'RawAttentionScore', tokens: [0, 48] },
  { point: 'Logits', compressor: { kind: 'topk', k: 5 } },
  { point: 'InputTokens' },
];

test('statistics, projections, attention and the largest', async ({ page, hub }) => {
  hub.plan = { number: 1, entries: kEntries };
  await compare(page, hub, '&stepb=40&point=HiddenStates+·+stats&layer=3');
  const row = page.getByTestId('compare-stats').getByRole('row').nth(2);
  await expect(row.getByRole('cell')).toHaveText([
    statAt(3, 120, 1).toPrecision(5),
    statAt(3, 40, 1).toPrecision(5),
    `+${(f32(statAt(3, 120, 1)) - f32(statAt(3, 40, 1))).toPrecision(5)}`,
  ]);
  await page.getByTestId('point').selectOption('HiddenStates · projection');
  await expect(page.getByTestId('compare-layers-b')).toBeVisible();
  await idle(page);
  const at = (step: number): number => f32(projectionAt(2, step, 0, 7, 0));
  const map = page.getByTestId('compare-layers-difference');
  await map.hover({ position: await spotOf(map, 1, 7, kLayers) });
  expect(await tipValue(page)).toBe(Number((at(120) - at(40)).toPrecision(7)));
  await page.getByTestId('point').selectOption('RawAttentionScore');
  await page.getByTestId('head').selectOption('1');
  await expect(page.getByRole('heading', { name: 'B, step 40: head 1' })).toBeVisible();
  await idle(page);
  const score = (step: number): number => f32(attentionAt(3, 1, 40, 37, step));
  const scores = page.getByTestId('compare-attention-difference');
  await scores.hover({ position: await spotOf(scores, 40, 37, 48, kSequence) });
  expect(await tipValue(page)).toBe(Number((score(120) - score(40)).toPrecision(7)));
  await page.getByTestId('point').selectOption('Logits');
  await expect(page.getByTestId('changed-count')).toContainText('of 256 tokens');
  // The text moves on by 560 characters between the steps: the best is the true next token.
  const rows = page.getByTestId('changed').locator('tbody tr');
  const counted = page.getByTestId('changed-count');
  await expect(async () => {
    await expect(rows).toHaveCount(Number(/at (\d+)/.exec(await counted.innerText())?.[1]));
    expect(await rows.count()).toBeGreaterThan(0);
  }).toPass();
});

for (const colorScheme of ['dark', 'light'] as const) {
  test(`pictures and axe of every comparison, ${colorScheme}`, async ({ page, hub }) => {
    hub.plan = { number: 1, entries: kEntries };
    hub.others = [other(hub)];
    test.slow();
    await page.emulateMedia({ colorScheme });
    await compare(page, hub, `&stepb=40&layer=3&runb=${kOtherId}`);
    for (const [index, { point }] of kEntries.slice(0, 5).entries()) {
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
      await page.locator('body').press(']');
    }
  });
}

test('the tab is reached by keyboard, and the arrows move A alone', async ({ page, hub }) => {
  await open(page, hub);
  await page.locator('body').press('5');
  await expect(page.getByTestId('side-A')).toBeVisible();
  await page.locator('body').press('ArrowLeft');
  await expect(page.getByTestId('step-A')).toHaveValue('119');
  await expect(page.getByTestId('step-B')).toHaveValue('120');
});
