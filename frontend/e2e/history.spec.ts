import AxeBuilder from '@axe-core/playwright';
import { expect } from '@playwright/test';
import { kLayers, kTiles, kTokens, test } from './recorded.ts';
import {
  advance,
  choose,
  digits,
  hoverTile,
  idle,
  kSmoke,
  open,
  openPlan,
  spotOf,
  tipValue,
} from './support.ts';

test('the loss curve shows all of the run, not only what the hub repeats', async ({
  page,
  hub,
}) => {
  hub.step = 2500;
  await open(page, hub);
  await expect.poll(() => page.evaluate(() => window.__tt?.app.series.all.length)).toBe(2500);
});

test('a step that the page does not hold comes from the history', async ({ page, recorded }) => {
  await open(page, recorded);
  const source = page.getByTestId('step-source');
  await expect(source).toHaveText('');
  await page.getByLabel('One captured step back').click();
  await expect(page.getByTestId('shown-step')).toHaveText('step 29');
  await expect(source).toContainText('Fetched from history');
  await page.getByLabel('Shown step, of the steps in').fill('10');
  await expect(page.getByTestId('shown-step')).toHaveText('step 10');
  await expect(source).toContainText('Fetched from history');
  await idle(page);
  await hoverTile(page, 5, 17, kTiles, kTokens);
  expect(await tipValue(page)).toBe(digits(recorded.expected.tile(1, 10, 17, 5)));
  await expect(page.getByTestId('tip')).toContainText(`id ${recorded.expected.token(10, 17)}`);
  await page.screenshot({ path: 'test-results/fetched.png' });
  await page.getByTestId('follow').click();
  await expect(page.getByTestId('shown-step')).toHaveText('step 30');
  await expect(source).toHaveText('');
});

test('a curve over the steps begins before the page came', async ({ page, recorded }) => {
  await open(page, recorded);
  await choose(page, 'over steps');
  const map = page.getByTestId('over-map');
  const columns = 30;
  await expect(page.getByLabel(`of ${kLayers} layers at ${columns} steps`)).toBeVisible();
  await map.hover({ position: await spotOf(map, 1, 4, kLayers, columns) });
  const numbers = recorded.expected.values('tiles', 2, 5);
  const mean = numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
  expect(await tipValue(page)).toBeCloseTo(mean, 6);
  await expect(page.getByTestId('tip')).toContainText('5');
});

test('a step that nobody keeps is shown as a gap', kSmoke, async ({ page, hub }) => {
  hub.holes.add(118);
  await open(page, hub);
  await page.locator('body').press('ArrowLeft');
  await expect(page.getByTestId('shown-step')).toHaveText('step 119');
  await page.locator('body').press('ArrowLeft');
  await expect(page.getByTestId('no-maps')).toContainText('No data of HiddenStates at step 118');
  await expect(page.getByTestId('step-source')).toHaveText('no data of this step');
  await page.screenshot({ path: 'test-results/gap.png' });
  await page.locator('body').press('ArrowLeft');
  await expect(page.getByTestId('shown-step')).toHaveText('step 117');
  await expect(page.getByTestId('tile-map')).toBeVisible();
});

test('without a history the page goes through what it holds', async ({ page, hub }) => {
  hub.keepsHistory = false;
  await open(page, hub);
  await expect(page.getByLabel('One captured step back')).toBeDisabled();
  await advance(page, hub, 2);
  await page.locator('body').press('ArrowLeft');
  await expect(page.getByTestId('shown-step')).toHaveText('step 121');
});

test('what was taken is acknowledged', async ({ page, hub }) => {
  await open(page, hub);
  expect(hub.requests[0]).toMatchObject({ method: 'hello', params: { window: 1 } });
  await expect.poll(() => hub.acknowledged).toBe(1);
  await advance(page, hub, 6);
  await expect.poll(() => hub.acknowledged).toBe(7);
});

test('a replay is moved, sped up and stepped; its plan stays', async ({ page, recorded }) => {
  await open(page, recorded);
  await expect(page.getByTestId('chip')).toHaveText('replay, paused');
  await openPlan(page);
  await expect(page.getByTestId('apply')).toBeDisabled();
  await expect(page.getByTestId('plan-access')).toContainText('cannot be traced again');
  await expect(page.getByTestId('plan-claim')).toHaveCount(0);
  await page.getByTestId('tab-tensors').click();
  await page.getByTestId('speed').selectOption('0.1');
  await expect(page.getByTestId('holder')).toContainText('you');
  await expect(page.getByTestId('stop')).toHaveCount(0);
  const shown = page.getByTestId('shown-step');
  await page.getByTestId('seek').fill('20');
  await expect(shown).toHaveText('step 20');
  await page.getByTestId('seek').press('ArrowRight');
  await expect(shown).toHaveText('step 21');
  await page.getByTestId('seek').fill('6');
  await expect(shown).toHaveText('step 6');
  await expect(page.getByTestId('step')).toHaveText(/6\s*\/\s*40/);
  await page.getByTestId('step-once').click();
  await expect(shown).toHaveText('step 7');
  await expect(page.getByTestId('message')).toHaveText('Step 7 done');
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveText('replay, 0.1×');
  await expect(shown).toHaveText(/^step ([89]|[1-3]\d|40)$/, { timeout: 10_000 });
  await page.screenshot({ path: 'test-results/replay.png' });
});

test.describe('from the first step', () => {
  test.use({ firstStep: 1 });

  test('the curves of a replay are whole, however it is moved', async ({ page, recorded }) => {
    await open(page, recorded);
    const length = (): Promise<number | undefined> =>
      page.evaluate(() => window.__tt?.app.series.all.length);
    await expect.poll(length).toBe(40);
    await page.getByTestId('step-once').click();
    await expect(page.getByTestId('shown-step')).toHaveText('step 2');
    await idle(page);
    expect(await length()).toBe(40);
  });
});

test('stop asks first, and only the holder of control sees it', async ({ page, hub }) => {
  await open(page, hub);
  await expect(page.getByTestId('stop')).toHaveCount(0);
  await page.getByTestId('holder').click();
  await page.getByTestId('claim').click();
  await page.getByTestId('stop').click();
  const dialog = page.getByRole('dialog', { name: 'Stop the run?' });
  await expect(dialog).toBeVisible();
  await page.screenshot({ path: 'test-results/stop.png' });
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  expect(hub.requests.some(({ method }) => method === 'control.stop')).toBe(false);
  await page.getByTestId('stop').press('Enter');
  await page.getByTestId('stop-confirm').press('Enter');
  await expect(page.getByTestId('chip')).toHaveText('stopped after step 120');
  await expect(page.getByTestId('message')).toHaveText('The run ends after step 120 on 2/2 ranks');
});

for (const viewOnly of ['told', 'silent'] as const) {
  test(`a token that only views (${viewOnly}) has nothing to claim`, async ({ page, hub }) => {
    hub.viewOnly = viewOnly;
    await open(page, hub);
    await page.getByTestId('holder').click();
    if (viewOnly === 'silent') await page.getByTestId('claim').click();
    await expect(page.getByTestId('view-only')).toHaveText('This token allows only viewing.');
    await expect(page.getByTestId('claim')).toHaveCount(0);
    await expect(page.getByTestId('pause')).toBeDisabled();
    await openPlan(page);
    await expect(page.getByTestId('apply')).toBeDisabled();
    await expect(page.getByTestId('plan-access')).toHaveText(
      'Read-only: this token allows only viewing.',
    );
    await expect(page.getByTestId('plan-claim')).toHaveCount(0);
  });
}

test('an entry that is off is shown so, and is switched on again', async ({ page, hub }) => {
  const [first, second, ...rest] = hub.plan.entries;
  hub.plan = { number: 1, entries: [{ ...first, enabled: false }, second, ...rest] };
  await open(page, hub);
  await expect(page.getByTestId('point')).toHaveValue('MLP1');
  await page.getByTestId('point').selectOption('HiddenStates');
  await expect(page.getByTestId('no-maps')).toContainText('HiddenStates is off');
  await openPlan(page);
  await expect(page.getByLabel('Entry 1 on')).not.toBeChecked();
  await expect(page.getByTestId('entry-summary-1')).toContainText('off');
  await page.screenshot({ path: 'test-results/entry-off.png' });
  await page.getByLabel('Entry 2 on').press('Space');
  await page.getByTestId('apply').click();
  await expect(page.getByTestId('plan-in-force')).toContainText('In force since step 121');
  expect(hub.plan.entries.map(({ enabled }) => enabled)).toEqual([false, false, undefined]);
});

for (const colorScheme of ['dark', 'light'] as const) {
  test(`no serious finding of axe in a replay, ${colorScheme}`, async ({ page, recorded }) => {
    await page.emulateMedia({ colorScheme });
    await open(page, recorded);
    await page.getByLabel('One captured step back').click();
    await expect(page.getByTestId('step-source')).toContainText('Fetched from history');
    await page.screenshot({ path: `test-results/replay-${colorScheme}.png` });
    await expect(page.getByTestId('holder')).toBeInViewport({ ratio: 1 });
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations.filter(
      ({ impact }) => impact === 'serious' || impact === 'critical',
    );
    const found = serious.flatMap(({ id, nodes }) =>
      nodes.map((node) => `${id}: ${String(node.target[0])} ${node.failureSummary ?? ''}`),
    );
    expect(found).toEqual([]);
  });
}
