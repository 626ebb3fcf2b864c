import { expect, type Locator, type Page } from '@playwright/test';
import { kLayers, kPromptSet, kSequence } from './fake_data.ts';
import { factsOf } from './fake_facts.ts';
import type { FakeHub } from './fake_hub.ts';
import { asShown, kHeader, kHiddenBytes, kMlpBytes, kTokenBytes, visit } from './plan_support.ts';
import { chooseEntry, idle, kSmoke, test } from './support.ts';

// Live checking, presets and links of the Plan view.

const kStepsPerSecond = 1000 / 380;

function planInAddress(page: Page): string | null {
  return new URL(page.url()).searchParams.get('plan');
}

function checks(hub: FakeHub): unknown[] {
  return hub.requests.filter(({ method }) => method === 'plan.check').map(({ params }) => params);
}

test('a draft is checked while it is typed: bytes by entry and in all', async ({ page, hub }) => {
  await visit(page, hub);
  const all = kHiddenBytes + kMlpBytes + kTokenBytes;
  await expect(page.getByTestId('plan-bytes')).toHaveText(asShown(all));
  await expect(page.getByTestId('plan-rate')).toHaveText(`${asShown(all * kStepsPerSecond)}/s`);
  await expect(page.getByTestId('plan-estimate')).toContainText('At 2.63 steps/s');
  await expect(page.getByTestId('entry-bytes-1')).toHaveText(asShown(kHiddenBytes));
  await expect(page.getByTestId('entry-bytes-3')).toHaveText(asShown(kTokenBytes));
  await page.getByLabel('Every how many steps, entry 1').fill('10');
  await expect(page.getByTestId('entry-bytes-1')).toHaveText(asShown(kHiddenBytes / 10));
  await expect(page.getByTestId('plan-bytes')).toHaveText(
    asShown(kHiddenBytes / 10 + kMlpBytes + kTokenBytes),
  );
  await chooseEntry(page, 2);
  await page.getByLabel('Data of entry 2').selectOption('probes');
  expect(kPromptSet.interval).toBe(10);
  await expect(page.getByTestId('entry-bytes-2')).toHaveText(asShown(kMlpBytes / 10));
  expect(hub.holder).toBeNull();
  await expect(page.getByTestId('plan-many')).toHaveCount(0);
  await page.getByLabel('Data of entry 2').selectOption({ label: "the run's own" });
  await page.getByLabel('Compressor of entry 2').selectOption('none');
  const many = kLayers * (kHeader + kSequence * 1024 * 4);
  await expect(page.getByTestId('entry-bytes-2')).toHaveText(asShown(many));
  await expect(page.getByTestId('plan-many')).toContainText('More than 10 MiB/s');
  await page.screenshot({ path: 'test-results/plan-many.png' });
});

test('a wrong expression shows its caret, and keeps the focus', async ({ page, hub }) => {
  await visit(page, hub);
  await page.getByLabel('Method of entry 1').selectOption({ label: 'expression …' });
  const field = page.getByLabel('Expression of entry 1');
  await field.pressSequentially('data.maen(dim=-1)');
  const caret = page.getByTestId('expression-caret');
  await expect(caret).toHaveText('     ^~~~', { useInnerText: false });
  expect(await caret.textContent()).toBe('     ^~~~');
  await expect(page.getByTestId('expression-error')).toHaveText(
    /^there is no "maen", did you mean "mean"\?\s+docs\/expressions.md lists the operators$/,
  );
  await expect(field).toBeFocused();
  await expect(page.getByTestId('plan-bytes')).toHaveText('–');
  // The caret stands below the first letter of the wrong name.
  const [width, left] = await field.evaluate((element) => {
    const context = document.createElement('canvas').getContext('2d');
    const style = getComputedStyle(element);
    if (context === null) return [0, 0];
    context.font = style.font;
    return [context.measureText('data.').width, parseFloat(style.paddingLeft)];
  });
  const mark = await caret.evaluate((element) => {
    const range = document.createRange();
    const text = element.firstChild;
    if (text === null) return 0;
    range.setStart(text, 5);
    range.setEnd(text, 6);
    return range.getBoundingClientRect().left - element.getBoundingClientRect().left;
  });
  expect(Math.abs(mark - (width + left))).toBeLessThan(1);
  await page.screenshot({ path: 'test-results/plan-expression.png' });
  await field.fill('data.mean(dim=-1, keepdim=False)');
  await expect(page.getByTestId('expression-error')).toHaveCount(0);
  await expect(page.getByTestId('entry-bytes-1')).toHaveText(asShown(kHiddenBytes));
  await page.getByTestId('apply').click();
  await expect(page.getByTestId('plan-in-force')).toContainText('as plan 2');
  expect(hub.plan.entries[0].compressor).toEqual({
    kind: 'tile',
    tiles: 64,
    method: 'data.mean(dim=-1, keepdim=False)',
  });
  // The plan of the trainer comes back into the form as it was written.
  await expect(field).toHaveValue('data.mean(dim=-1, keepdim=False)');
});

test('an answer to an older draft is dropped', kSmoke, async ({ page, hub }) => {
  await visit(page, hub);
  await expect(page.getByTestId('entry-bytes-1')).toHaveText(asShown(kHiddenBytes));
  hub.heldChecks = [];
  const tiles = page.getByLabel('Tiles of entry 1');
  await tiles.fill('9999');
  await expect.poll(() => hub.heldChecks?.length).toBe(1);
  await tiles.fill('32');
  await expect.poll(() => hub.heldChecks?.length).toBe(2);
  const [older, newer] = hub.heldChecks;
  newer();
  await expect(page.getByTestId('entry-bytes-1')).toHaveText(
    asShown(kLayers * (kHeader + kSequence * 32 * 4)),
  );
  older();
  await idle(page);
  await expect(page.getByTestId('entry-error-1')).toHaveCount(0);
  await expect(page.getByTestId('plan-outcome').locator('.error')).toHaveCount(0);
});

test('a hub that cannot check is asked once, and the estimate stays open', async ({
  page,
  hub,
}) => {
  hub.noCheck = { code: 'unknown_method', message: 'there is no method plan.check' };
  await visit(page, hub);
  await expect.poll(() => checks(hub).length).toBe(1);
  await page.getByLabel('Tiles of entry 1').fill('32');
  await page.getByTestId('apply').click();
  await expect(page.getByTestId('plan-in-force')).toContainText('as plan 2');
  await expect(page.getByTestId('plan-bytes')).toHaveText('–');
  await expect(page.getByTestId('plan-rate')).toHaveText('–');
  await expect(page.getByTestId('entry-bytes-1')).toHaveText('–');
  await expect(page.getByTestId('plan-hindrance')).toContainText('no method plan.check');
  expect(checks(hub)).toHaveLength(1);
});

test('why a draft is not checked is told, and it is checked once it can be', async ({
  page,
  hub,
}) => {
  hub.noCheck = { code: 'no_trainer', message: 'no worker is connected' };
  await visit(page, hub);
  await expect(page.getByTestId('plan-hindrance')).toHaveText(
    'Not checked: no worker is connected',
  );
  hub.noCheck = null;
  await expect(page.getByTestId('plan-bytes')).not.toHaveText('–', { timeout: 8000 });
  await expect(page.getByTestId('plan-hindrance')).toHaveCount(0);
});

test('another run is asked anew about the same draft', async ({ page, hub }) => {
  await visit(page, hub);
  await expect(page.getByTestId('plan-bytes')).not.toHaveText('–');
  expect(checks(hub)).toHaveLength(1);
  hub.broadcast('run', { ...factsOf(hub.plan), id: '00000000000000ab' });
  await expect.poll(() => checks(hub).length).toBe(2);
});

test('a preset is added without what is there; to replace is another button', async ({
  page,
  hub,
}) => {
  await visit(page, hub);
  const presets = page.getByTestId('plan-presets');
  const names = page.getByTestId('plan-list').getByRole('button');
  const named = (name: string): Locator =>
    presets.locator('.preset').filter({ has: page.getByText(name, { exact: true }) });
  await named('Predictions').click();
  await expect(names).toHaveText(['HiddenStates', 'MLP1', 'InputTokens', 'Logits']);
  await expect(page.getByTestId('preset-outcome')).toHaveText('Predictions: 1 entry added.');
  await expect(page.getByTestId('entry-bytes-4')).toBeInViewport();
  await named('Overview').click();
  await expect(page.getByTestId('preset-outcome')).toContainText('already has all its entries');
  const replace = 'Replace all entries by preset Predictions';
  await presets.getByRole('button', { name: replace, exact: true }).click();
  await expect(names).toHaveText(['Logits', 'InputTokens']);
  await named('QKV and MLP').click();
  await expect(names).toHaveText(['Logits', 'InputTokens', 'QKV', 'MLP1', 'MLP2']);
  await page.screenshot({ path: 'test-results/plan-preset.png' });
  for (const preset of await presets.locator('.replace').all()) {
    await preset.click();
    await expect(page.getByTestId('plan-estimate')).toHaveClass(/stale/);
    await expect(page.getByTestId('plan-estimate')).not.toHaveClass(/stale/);
    await expect(page.getByTestId('plan-bytes')).not.toHaveText('–');
  }
});

test('presets of the user are kept in the browser', kSmoke, async ({ page, hub }) => {
  await visit(page, hub);
  await page.getByLabel('Tiles of entry 1').fill('17');
  await page.getByLabel('Name of a preset').fill('seventeen');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Revert' }).click();
  await idle(page);
  await page.reload();
  await page.getByRole('button', { name: 'seventeen', exact: true }).click();
  await expect(page.getByTestId('preset-outcome')).toHaveText('seventeen: 1 entry added.');
  await expect(page.getByLabel('Tiles of entry 4')).toHaveValue('17');
  await page.getByLabel('Delete preset seventeen').click();
  await page.reload();
  await expect(page.getByTestId('plan-presets')).toContainText('Overview');
  await expect(page.getByRole('button', { name: 'seventeen', exact: true })).toHaveCount(0);
});

test('a link carries the draft, and only a draft', async ({ page, hub, context }) => {
  await visit(page, hub);
  expect(planInAddress(page)).toBeNull();
  await page.getByLabel('Layers of entry 1').fill('2-3');
  await page.getByLabel('Method of entry 1').selectOption({ label: 'expression …' });
  await page.getByLabel('Expression of entry 1').fill('data.mean(dim=-1) * 2 # é');
  await idle(page);
  expect(planInAddress(page)).toContain('HiddenStates.l2-3');
  const other = await context.newPage();
  await other.goto(page.url());
  await expect(other.getByLabel('Layers of entry 1')).toHaveValue('2-3');
  await expect(other.getByLabel('Expression of entry 1')).toHaveValue('data.mean(dim=-1) * 2 # é');
  await expect(other.getByTestId('plan-changes')).toHaveText(await changesText(page));
  await idle(other);
  expect(other.url()).toBe(page.url());
  // Applied, it is the plan in force: the other page's draft is none any more either.
  await page.getByTestId('apply').click();
  await expect(page.getByTestId('plan-in-force')).toContainText('as plan 2');
  await expect(other.getByTestId('plan-outcome')).toHaveText(/No changes/);
  for (const each of [page, other]) {
    await idle(each);
    expect(planInAddress(each)).toBeNull();
  }
});

async function changesText(page: Page): Promise<string> {
  return page.getByTestId('plan-changes').innerText();
}

test('a draft that is too long for the address says that a reload loses it', async ({
  page,
  hub,
}) => {
  await visit(page, hub);
  await page.getByLabel('Method of entry 1').selectOption({ label: 'expression …' });
  const expression = page.getByLabel('Expression of entry 1');
  await expression.fill('data.mean(dim=-1)');
  await expect(page.getByTestId('plan-too-long')).toHaveCount(0);
  await expression.fill(`data.mean(dim=-1)${' + 1'.repeat(700)}`);
  await expect(page.getByTestId('plan-too-long')).toContainText('a reload loses it');
  await idle(page);
  expect(planInAddress(page)).toBeNull();
});
