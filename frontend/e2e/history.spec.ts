import AxeBuilder from '@axe-core/playwright';
import { expect } from '@playwright/test';
import { kLayers } from './fake_data.ts';
import {
  advance,
  choose,
  hoverTile,
  idle,
  kSmoke,
  numbersOf,
  open,
  openPlan,
  spotOf,
  test,
  tipValue,
} from './support.ts';

const kHidden = 7;

test('the loss curve shows all of the run, not only what the hub repeats', async ({
  page,
  hub,
}) => {
  hub.step = 2500;
  await open(page, hub);
  await expect.poll(() => page.evaluate(() => window.__tt?.app.series.all.length)).toBe(2500);
});

test('a step that the page does not hold comes from the history', async ({ page, hub }) => {
  await open(page, hub);
  const source = page.getByTestId('step-source');
  await expect(source).toHaveText('');
  await page.getByLabel('One captured step back').click();
  await expect(page.getByTestId('shown-step')).toHaveText('step 119');
  await expect(source).toContainText('Fetched from history');
  await page.getByLabel('Shown step, of the steps in').fill('40');
  await expect(page.getByTestId('shown-step')).toHaveText('step 40');
  await expect(source).toContainText('Fetched from history');
  await idle(page);
  await hoverTile(page, 9, 30);
  const sent = hub.value(kHidden, 1, 40, 30, 9, 64);
  expect(await tipValue(page)).toBe(Number(sent.toPrecision(7)));
  await expect(page.getByTestId('tip')).toContainText('id ');
  await page.screenshot({ path: 'test-results/fetched.png' });
  await page.getByTestId('follow').click();
  await expect(page.getByTestId('shown-step')).toHaveText('step 120');
  await expect(source).toHaveText('');
});

test('a curve over the steps begins before the page came', async ({ page, hub }) => {
  const [first, last] = [101, 120];
  hub.firstKept = first;
  await open(page, hub);
  await choose(page, 'over steps');
  const map = page.getByTestId('over-map');
  const columns = last - first + 1;
  await expect(page.getByLabel(`of ${kLayers} layers at ${columns} steps`)).toBeVisible();
  await map.hover({ position: await spotOf(map, 1, 105 - first, kLayers, columns) });
  const numbers = numbersOf(hub, 2, 105);
  const mean = numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
  expect(await tipValue(page)).toBeCloseTo(mean, 6);
  await expect(page.getByTestId('tip')).toContainText('105');
});

test('a step that nobody keeps is shown as a gap', kSmoke, async ({ page, hub }) => {
  hub.holes?.add(118);
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
  hub.holes = null;
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

test('a replay is moved, sped up and stepped; its plan stays', async ({ page, hub }) => {
  hub.step = 50;
  hub.setReplay(1, 300);
  await open(page, hub);
  await expect(page.getByTestId('chip')).toHaveText('replay, paused');
  await openPlan(page);
  await expect(page.getByTestId('apply')).toBeDisabled();
  await expect(page.getByTestId('plan-access')).toContainText('cannot be traced again');
  await expect(page.getByTestId('plan-claim')).toHaveCount(0);
  await page.getByTestId('tab-tensors').click();
  await page.getByTestId('speed').selectOption('2');
  await expect(page.getByTestId('holder')).toContainText('you');
  await expect(page.getByTestId('stop')).toHaveCount(0);
  const shown = page.getByTestId('shown-step');
  await page.getByTestId('seek').fill('200');
  await expect(shown).toHaveText('step 200');
  await page.getByTestId('seek').press('ArrowRight');
  await expect(shown).toHaveText('step 201');
  await page.getByTestId('seek').fill('12');
  await expect(shown).toHaveText('step 12');
  await expect(page.getByTestId('step')).toHaveText(/12\s*\/\s*300/);
  await page.getByTestId('step-once').click();
  await expect(shown).toHaveText('step 13');
  await expect(page.getByTestId('message')).toHaveText('Step 13 done');
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveText('replay, 2×');
  await page.screenshot({ path: 'test-results/replay.png' });
  const asked = hub.requests.filter(({ method }) => method.startsWith('replay.'));
  expect(asked[0]).toEqual({ method: 'replay.speed', params: { speed: 2 } });
  expect(asked[1]).toEqual({ method: 'replay.seek', params: { step: 200 } });
});

test('the curves of a replay are whole, however it is moved', async ({ page, hub }) => {
  hub.step = 0;
  hub.setReplay(1, 300);
  await open(page, hub);
  const length = (): Promise<number | undefined> =>
    page.evaluate(() => window.__tt?.app.series.all.length);
  await expect.poll(length).toBe(300);
  await page.getByTestId('step-once').click();
  await expect(page.getByTestId('shown-step')).toHaveText('step 1');
  await idle(page);
  expect(await length()).toBe(300);
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
  test(`no serious finding of axe in a replay, ${colorScheme}`, async ({ page, hub }) => {
    await page.emulateMedia({ colorScheme });
    hub.step = 50;
    hub.setReplay(1, 300);
    await open(page, hub);
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
