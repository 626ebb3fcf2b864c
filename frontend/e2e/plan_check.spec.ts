import { expect, type Locator, type Page } from '@playwright/test';
import { asShown, kHeader, kHiddenBytes, kMlpBytes, kTokenBytes, visit } from './plan_support.ts';
import { advance, kLayers, test } from './real_run.ts';
import { chooseEntry, idle, kSmoke } from './support.ts';

// Live checking, presets and links of the Plan view.

// Without evaluations, all bytes are those of training steps.
test.use({ flags: ['--eval-interval', '0'] });

function planInAddress(page: Page): string | null {
  return new URL(page.url()).searchParams.get('plan');
}

test('a draft is checked while it is typed: bytes by entry and in all', async ({ page, run }) => {
  await visit(page, run);
  const all = kHiddenBytes + kMlpBytes + kTokenBytes;
  await expect(page.getByTestId('plan-bytes')).toHaveText(asShown(all));
  // A run that has done no step has no rate.
  await expect(page.getByTestId('plan-rate')).toHaveText('–');
  await expect(page.getByTestId('entry-bytes-1')).toHaveText(asShown(kHiddenBytes));
  await expect(page.getByTestId('entry-bytes-3')).toHaveText(asShown(kTokenBytes));
  await page.getByLabel('Every how many steps, entry 1').fill('10');
  await expect(page.getByTestId('entry-bytes-1')).toHaveText(asShown(kHiddenBytes / 10));
  await expect(page.getByTestId('plan-bytes')).toHaveText(
    asShown(kHiddenBytes / 10 + kMlpBytes + kTokenBytes),
  );
  await chooseEntry(page, 2);
  await page.getByLabel('Data of entry 2').selectOption('probes');
  // The first prompt has 16 tokens, half of a sequence, and runs every 10 steps.
  const promptBytes = kLayers * (kHeader + 16 * 4 * 4);
  await expect(page.getByTestId('entry-bytes-2')).toHaveText(asShown(promptBytes / 10));
  expect(run.holder).toBeNull();
  await expect(page.getByTestId('plan-many')).toHaveCount(0);
});

test('bytes per second follow the rate of the steps; too many are warned of', async ({
  page,
  run,
}) => {
  await visit(page, run);
  await advance(page, 30);
  const estimate = page.getByTestId('plan-estimate');
  await expect(estimate).toContainText(/At [\d.]+ steps\/s/);
  const pace = Number(/At ([\d.]+) steps/.exec(await estimate.innerText())?.[1]);
  const shown = await page.getByTestId('plan-rate').innerText();
  const factor = shown.includes('MiB') ? 2 ** 20 : 2 ** 10;
  const all = kHiddenBytes + kMlpBytes + kTokenBytes;
  expect((parseFloat(shown) * factor) / (all * pace)).toBeCloseTo(1, 1);
  await expect(page.getByTestId('plan-many')).toHaveCount(0);
  await page.getByLabel('Compressor of entry 1').selectOption('none');
  await page.getByLabel('Rows of entry 1').fill('0');
  await chooseEntry(page, 2);
  await page.getByLabel('Compressor of entry 2').selectOption('none');
  await page.getByLabel('Rows of entry 2').fill('0');
  await expect(page.getByTestId('plan-many')).toContainText('More than 10 MiB/s');
  await page.screenshot({ path: 'test-results/plan-many.png' });
});

test('a wrong expression shows its caret, and keeps the focus', async ({ page, run }) => {
  await visit(page, run);
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
  expect(run.plan.entries[0].compressor).toEqual({
    kind: 'tile',
    tiles: 8,
    method: 'data.mean(dim=-1, keepdim=False)',
  });
  // The plan of the trainer comes back into the form as it was written.
  await expect(field).toHaveValue('data.mean(dim=-1, keepdim=False)');
});

test('a preset is added without what is there; to replace is another button', async ({
  page,
  run,
}) => {
  await visit(page, run);
  const presets = page.getByTestId('plan-presets');
  const names = page.getByTestId('plan-list').getByRole('button');
  const named = (name: string): Locator =>
    presets.locator('.preset').filter({ has: page.getByText(name, { exact: true }) });
  await named('Predictions').click();
  await expect(names).toHaveText(['HiddenStates', 'MLP1', 'InputTokens', 'Logits']);
  await expect(page.getByTestId('preset-outcome')).toHaveText('Predictions: 1 entry added.');
  await expect(page.getByTestId('entry-bytes-4')).toBeInViewport();
  await named('Predictions').click();
  await expect(page.getByTestId('preset-outcome')).toContainText('already has all its entries');
  const replace = 'Replace all entries by preset Predictions';
  await presets.getByRole('button', { name: replace, exact: true }).click();
  await expect(names).toHaveText(['Logits', 'InputTokens']);
  await named('QKV and MLP').click();
  await expect(names).toHaveText(['Logits', 'InputTokens', 'QKV', 'MLP1', 'MLP2']);
  await page.screenshot({ path: 'test-results/plan-preset.png' });
  for (const preset of await presets.locator('.replace').all()) {
    await preset.click();
    await expect(page.getByTestId('plan-estimate')).not.toHaveClass(/stale/);
    await expect(page.getByTestId('plan-bytes')).not.toHaveText('–');
  }
});

test('presets of the user are kept in the browser', kSmoke, async ({ page, run }) => {
  await visit(page, run);
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

test('a link carries the draft, and only a draft', async ({ page, run, context }) => {
  await visit(page, run);
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
  // Applied, it is the plan in force: the other page's draft is no longer a draft either.
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
  run,
}) => {
  await visit(page, run);
  await page.getByLabel('Method of entry 1').selectOption({ label: 'expression …' });
  const expression = page.getByLabel('Expression of entry 1');
  await expression.fill('data.mean(dim=-1)');
  await expect(page.getByTestId('plan-too-long')).toHaveCount(0);
  await expression.fill(`data.mean(dim=-1)${' + 1'.repeat(700)}`);
  await expect(page.getByTestId('plan-too-long')).toContainText('a reload loses it');
  await idle(page);
  expect(planInAddress(page)).toBeNull();
});
