import { expect } from '@playwright/test';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { asShown, entriesAsked, kMlpBytes, visit } from './plan_support.ts';
import { advance, test } from './real_run.ts';
import { chooseEntry, kSmoke, openPlan, seriousOf } from './support.ts';

/** The first point that the plan does not have. */
const kFirst = 'embedding.word_embeddings.output';

test('the fields of an entry stand side by side', async ({ page, run }) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await visit(page, run);
  const [rows, tokens] = await Promise.all(
    ['Rows of entry 1', 'Tokens of entry 1'].map((name) => page.getByLabel(name).boundingBox()),
  );
  expect((rows?.x ?? NaN) + (rows?.width ?? NaN)).toBeLessThan(tokens?.x ?? NaN);
});

test('an entry takes one line, also the tenth, and when it is new', async ({ page, run }) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await visit(page, run);
  await page.getByTestId('plan-presets').getByText('Statistics of everything').click();
  const numbers = page.getByTestId('plan-list').locator('td.number');
  await expect(numbers.nth(9)).toHaveText('10');
  const heights = await numbers.evaluateAll((cells) => cells.map((cell) => cell.clientHeight));
  expect(heights[9]).toBe(heights[4]);
});

test('entries are added, duplicated, moved, removed and switched off', async ({ page, run }) => {
  await visit(page, run);
  const names = page.getByTestId('plan-list').getByRole('button');
  await expect(names).toHaveText(['HiddenStates', 'MLP1', 'InputTokens']);
  await expect(page.getByTestId('plan-outcome')).toHaveText(/No changes/);
  await page.getByTestId('plan-add').click();
  await expect(names).toHaveText(['HiddenStates', 'MLP1', 'InputTokens', kFirst]);
  await page.getByRole('button', { name: 'Move entry 4 up' }).click();
  await page.getByRole('button', { name: 'Move entry 3 up' }).click();
  await expect(names).toHaveText(['HiddenStates', kFirst, 'MLP1', 'InputTokens']);
  await chooseEntry(page, 3);
  await page.getByRole('button', { name: 'Duplicate entry 3' }).click();
  await page.getByLabel('Layers of entry 4').fill('2');
  await chooseEntry(page, 1);
  await page.getByRole('button', { name: 'Remove entry 1' }).click();
  await page.getByLabel('Entry 2 on').press('Space');
  await expect(page.getByTestId('plan-changes').getByRole('listitem')).toHaveText([
    /−\s*HiddenStates\s+removed/,
    /\+\s*1 embedding\.word_embeddings\.output\s+added/,
    /~\s*2 MLP1\s+off/,
    /\+\s*3 MLP1\s+added/,
  ]);
  await page.screenshot({ path: 'test-results/plan-changes.png' });
  await page.getByTestId('apply').click();
  await expect(page.getByTestId('plan-in-force')).toHaveText(
    'In force since step 1 on 2/2 ranks, as plan 2',
  );
  await expect(page.getByTestId('plan-outcome')).toHaveText(/No changes/);
  const entries = await entriesAsked(run);
  expect(entries.map(({ point, enabled, layers }) => [point, enabled, layers])).toEqual([
    [kFirst, undefined, undefined],
    ['MLP1', false, '1-4'],
    ['MLP1', undefined, '2'],
    ['InputTokens', undefined, undefined],
  ]);
  expect(run.plan.entries.map(({ point }) => point)).toEqual(entries.map(({ point }) => point));
});

test.describe('with two micro-batches', () => {
  test.use({ flags: ['--global-batch-size', '8'] });

  test('every member of an entry is edited in its form', kSmoke, async ({ page, run }) => {
    await visit(page, run);
    await page.getByLabel('Direction of entry 1').selectOption('gradient');
    await page.getByLabel('Compressor of entry 1').selectOption('stats');
    await page.getByLabel('Range of entry 1').fill('-4:4');
    await page.getByLabel('Bins of entry 1').fill('16');
    await page.getByLabel('Micro-batches of entry 1').fill('0-1');
    await page.getByLabel('Tokens of entry 1').fill('0:16');
    await chooseEntry(page, 2);
    await page.getByLabel('Compressor of entry 2').selectOption('projection');
    await page.getByLabel('Point of entry 2').selectOption('QKV');
    await page.getByLabel('Data of entry 2').selectOption('probes');
    await page.getByLabel('Rows of entry 2').fill('0');
    await page.getByLabel('Vectors of entry 2').getByLabel('sycophancy').uncheck();
    await page.getByTestId('apply').click();
    await expect(page.getByTestId('entry-error-2')).toHaveText(/^vectors: .*"evil"/);
    await expect(page.getByTestId('plan-outcome')).toContainText('entry 2, vectors:');
    await expect(page.locator('#wrong-vectors')).toContainText('"evil"');
    await page.getByLabel('Point of entry 2').selectOption('HiddenStates');
    await page.getByTestId('apply').click();
    await expect(page.getByTestId('plan-in-force')).toContainText('In force since step 1');
    expect(await entriesAsked(run)).toEqual([
      {
        point: 'HiddenStates',
        direction: 'gradient',
        layers: '1-4',
        every: 1,
        micro_batches: '0-1',
        tokens: [0, 16],
        compressor: { kind: 'stats', range: [-4, 4], bins: 16 },
        dtype: 'f32',
      },
      {
        point: 'HiddenStates',
        layers: '1-4',
        every: 1,
        prompts: 'probes',
        rows: 0,
        compressor: { kind: 'projection', vectors: ['evil'] },
        dtype: 'f32',
      },
      { point: 'InputTokens', every: 1, compressor: { kind: 'none' } },
    ]);
  });
});

test('a vector that came later can be chosen once the plan names it', async ({ page, run }) => {
  const vectors = join(run.folder, '../vectors');
  copyFileSync(join(vectors, 'evil.npy'), join(vectors, 'late.npy'));
  const compressor = { kind: 'projection', vectors: ['late'] };
  await run.setPlan(...run.plan.entries, { point: 'HiddenStates', compressor });
  await visit(page, run);
  await page.getByLabel('Compressor of entry 1').selectOption('projection');
  const boxes = page.getByLabel('Vectors of entry 1').getByRole('checkbox');
  await expect(boxes).toHaveCount(3);
  for (const box of await boxes.all()) await expect(box).toBeChecked();
  await page.getByLabel('Vectors of entry 1').getByLabel('late').uncheck();
  await expect(boxes).toHaveCount(3);
  await expect(page.getByTestId('plan-changes')).toContainText('vectors evil, sycophancy');
});

test('a refused plan shows the error and its remedy; a good one when it is in force', async ({
  page,
  run,
}) => {
  await visit(page, run);
  const tiles = page.getByLabel('Tiles of entry 1');
  await tiles.fill('1000');
  await chooseEntry(page, 2);
  await page.getByTestId('apply').click();
  const outcome = page.getByTestId('plan-outcome');
  await expect(outcome).toContainText('entry 1, tiles: 1000 is not a whole number from 1 to 64');
  await expect(page.getByTestId('entry-error-1')).toHaveText(
    'tiles: 1000 is not a whole number from 1 to 64',
  );
  // The entry that is wrong is brought up.
  await expect(tiles).toHaveAttribute('aria-invalid', 'true');
  await page.screenshot({ path: 'test-results/plan-error.png' });
  expect(run.plan.number).toBe(1);

  await tiles.fill('16');
  await expect(page.getByTestId('entry-error-1')).toHaveCount(0);
  await page.getByLabel('Layers of entry 1').fill('2-3');
  await chooseEntry(page, 2);
  await page.getByLabel('Dtype of entry 2').selectOption('bf16');
  await page.getByTestId('apply').click();
  await expect(page.getByTestId('plan-in-force')).toHaveText(
    'In force since step 1 on 2/2 ranks, as plan 2',
  );
  const [hidden, mlp] = run.plan.entries;
  expect(hidden).toMatchObject({ point: 'HiddenStates', layers: '2-3', dtype: 'f32' });
  expect(hidden.compressor).toMatchObject({ kind: 'tile', tiles: 16 });
  expect(mlp).toMatchObject({ point: 'MLP1', layers: '1-4', dtype: 'bf16' });
  await advance(page);
  await page.getByTestId('tab-tensors').click();
  await expect(page.getByTestId('layer')).toHaveValue('2');
  await expect(page.getByRole('heading', { name: 'Layer 2: tiles × tokens' })).toBeVisible();
  await expect(page.getByText('16 tiles of 64 columns')).toBeVisible();
});

test('what is being typed survives news of the run and other views', async ({ page, run }) => {
  await visit(page, run);
  const layers = page.getByLabel('Layers of entry 1');
  await layers.fill('1-');
  await expect(page.getByTestId('entry-error-1')).toContainText('a list of ranges such as 1-4,8');
  await layers.fill('1-2');
  const [first, ...rest] = run.plan.entries;
  await run.setPlan({ ...first, every: 7 }, ...rest);
  await expect(page.getByTestId('plan-in-force')).toHaveText('Plan 2, in force since step 1');
  await expect(layers).toHaveValue('1-2');
  await advance(page, 2);
  await page.getByTestId('tab-tensors').click();
  await openPlan(page);
  await expect(layers).toHaveValue('1-2');
  await page.getByRole('button', { name: 'Revert' }).click();
  await expect(layers).toHaveValue('1-4');
  // Without a draft the form follows the plan.
  await run.remote.claim('Ada');
  await run.remote.ask('plan.set', { plan: { entries: [{ ...first, layers: '3' }, ...rest] } });
  await expect(layers).toHaveValue('3');
});

test('while another holds control the plan is read-only, until it is taken over', async ({
  page,
  run,
}) => {
  await run.remote.claim('Ada');
  await visit(page, run);
  await expect(page.getByTestId('plan-access')).toHaveText('Read-only: Ada holds control.');
  await expect(page.getByTestId('apply')).toBeDisabled();
  for (const control of await page.getByTestId('entry-form').locator('select, input').all()) {
    await expect(control).toBeDisabled();
  }
  await expect(page.getByLabel('Entry 1 on')).toBeDisabled();
  await expect(page.getByTestId('plan-add')).toBeDisabled();
  // Reading goes on: other entries, and what they send.
  await chooseEntry(page, 2);
  await expect(page.getByLabel('Tiles of entry 2')).toHaveValue('4');
  await expect(page.getByTestId('entry-bytes-2')).toHaveText(asShown(kMlpBytes));
  await page.screenshot({ path: 'test-results/plan-read-only.png' });
  await page.getByRole('button', { name: 'Take over from Ada' }).click();
  await expect(page.getByTestId('plan-access')).toHaveText('You hold control.');
  await expect(page.getByLabel('Tiles of entry 2')).toBeEnabled();
  expect(run.holder).toMatch(/^viewer v/);
  await run.remote.claim('Ada');
  await expect(page.getByTestId('toast').last()).toContainText('Ada took over control');
  await run.remote.release();
  await expect(page.getByTestId('plan-access')).toContainText('Nobody holds control');
  await page.getByTestId('plan-claim').click();
  await expect(page.getByTestId('holder')).toContainText('you');
});

for (const colorScheme of ['dark', 'light'] as const) {
  test(`no serious finding of axe in the plan, ${colorScheme}`, async ({ page, run }) => {
    await page.emulateMedia({ colorScheme });
    await visit(page, run);
    await page.screenshot({ path: `test-results/plan-${colorScheme}.png` });
    await page.getByLabel('Layers of entry 1').fill('2-3');
    await page.getByTestId('plan-add').click();
    await page.getByLabel('Method of entry 4').selectOption({ label: 'expression …' });
    await page.getByLabel('Expression of entry 4').fill('data.maen(dim=-1)');
    await expect(page.getByTestId('expression-error')).toBeVisible();
    await page.screenshot({ path: `test-results/plan-draft-${colorScheme}.png` });
    expect(await seriousOf(page)).toEqual([]);
    await page.setViewportSize({ width: 1920, height: 1080 });
    await page.screenshot({ path: `test-results/plan-wide-${colorScheme}.png` });
    await page.setViewportSize({ width: 640, height: 360 });
    for (const id of ['apply', 'plan-add', 'entry-form']) {
      await page.getByTestId(id).scrollIntoViewIfNeeded();
      await expect(page.getByTestId(id)).toBeInViewport();
    }
  });
}

test('the keyboard reaches every part of the editor', async ({ page, run }) => {
  await page.goto(run.url);
  await expect(page.getByTestId('chip')).toHaveText('ready to start');
  await page.locator('body').press('6');
  await expect(page.getByTestId('plan-list')).toBeVisible();
  await page.getByRole('button', { name: 'Entry 2, MLP1' }).focus();
  await page.keyboard.press('Enter');
  await expect(page.getByLabel('Tiles of entry 2')).toHaveValue('4');
  await page.getByLabel('Tiles of entry 2').focus();
  await page.keyboard.type('x');
  await expect(page.getByTestId('entry-error-2')).toContainText('tiles: a whole number from 1');
  await page.keyboard.press('Backspace');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('holder')).toContainText('you');
});
