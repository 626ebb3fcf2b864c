import AxeBuilder from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';
import type { FakeHub } from './fake_hub.ts';
import { kPositions } from './fake_interventions.ts';
import { apply, arm, asked, grouped, kSteer, type, visit } from './interventions_support.ts';
import { idle, kSmoke, open, test } from './support.ts';

// The Interventions view: type, check, arm, preview, apply.

async function seriousFindings(page: Page): Promise<readonly string[]> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  return serious.flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${String(node.target[0])} ${node.failureSummary ?? ''}`),
  );
}

test('a program is checked while it is typed; nobody needs the lease for it', async ({
  page,
  hub,
}) => {
  hub.setHolder({ session: 'v99', name: 'Ada' });
  await visit(page, hub);
  await type(page, kSteer);
  await expect(page.getByTestId('program-verdict')).toHaveText(/^The program is fine/);
  const check = page.getByTestId('program-check');
  await expect(check.getByTestId('program-write')).toHaveText(
    /layers\[2\]\.output\s+on every rank, whole/,
  );
  await expect(check).toContainText('late_norm');
  await expect(check.getByTestId('program-when')).toHaveText('training · all steps');
  await expect(check).toContainText(grouped(kPositions));
  await expect(check).toContainText('alpha = 4 from 0 to 20');
  await expect(page.getByTestId('program-graph')).toBeHidden();
  await page.getByText('Graph (JSON)').click();
  await expect(page.getByTestId('program-graph')).toContainText('"version": 1');
  expect(asked(hub, 'intervention.check').at(-1)).toEqual({ program: kSteer });
  await type(page, `when(phase="eval", steps="100-200", tokens="-1")\n${kSteer}`);
  await expect(check.getByTestId('program-when')).toHaveText(
    'evaluation · steps 100-200 · tokens -1',
  );
});

test('an error stands in the text, with line, column and caret', kSmoke, async ({ page, hub }) => {
  await visit(page, hub);
  const text = 'h = layers[2].output\nlayers[2].output = h + 4 * vetcor("evil")[2]';
  await type(page, text);
  const error = page.getByTestId('program-error');
  await expect(error).toContainText('line 2, column 28');
  await expect(error).toContainText('there is no "vetcor"');
  await expect(error).toContainText('docs/intervention_graph.md lists what there is');
  expect(await page.getByTestId('program-caret').textContent()).toBe(
    `${text.split('\n')[1]}\n${' '.repeat(27)}^~~~~~`,
  );
  await expect(page.getByTestId('arm')).toBeDisabled();
  await expect(page.getByTestId('program-check')).toHaveCount(0);
  // The mark lies upon the wrong name.
  const mark = page.getByTestId('program-mark');
  await expect(mark).toHaveText('vetcor');
  const [left, top, line] = await page.getByTestId('program-text').evaluate((area) => {
    const context = document.createElement('canvas').getContext('2d');
    if (context === null) throw new Error('no 2D canvas');
    const style = getComputedStyle(area);
    context.font = style.font;
    const box = area.getBoundingClientRect();
    const x = context.measureText('layers[2].output = h + 4 * ').width;
    return [box.left + parseFloat(style.paddingLeft) + x, box.top, parseFloat(style.lineHeight)];
  });
  const box = await mark.boundingBox();
  expect(Math.abs((box?.x ?? 0) - left)).toBeLessThan(1);
  expect(Math.floor(((box?.y ?? 0) + (box?.height ?? 0) / 2 - top - 4) / line)).toBe(1);
  await page.screenshot({ path: 'test-results/interventions-error.png' });
  await error.getByRole('button').click();
  await page.keyboard.type('vector');
  await expect(error).toHaveCount(0);
  await expect(page.getByTestId('program-text')).toHaveValue(text.replace('vetcor', 'vector'));
  await expect(page.getByTestId('arm')).toBeEnabled();
});

test('ready-made programs fill the editor; vectors and places are inserted', async ({
  page,
  hub,
}) => {
  await visit(page, hub);
  const ready = page.getByLabel('Ready-made programs');
  const titles = await ready.locator('option').allInnerTexts();
  expect(titles.length).toBeGreaterThan(3);
  await ready.selectOption('steer');
  await page.getByTestId('program-fill').click();
  const field = page.getByTestId('program-text');
  await expect(field).toHaveValue(/^# .*\n[^]*param\(/);
  await expect(page.getByLabel('Name of the program')).toHaveValue('steer');
  await field.fill('x = ');
  await page.getByLabel('Vectors and places').selectOption('vector("sycophancy")[1]');
  await page.getByTestId('program-insert').click();
  await expect(field).toHaveValue('x = vector("sycophancy")[1]');
  await page.keyboard.press('Enter');
  await page.getByLabel('Vectors and places').selectOption('layers[1].mlp.activation');
  await page.getByTestId('program-insert').click();
  await expect(field).toHaveValue('x = vector("sycophancy")[1]\nlayers[1].mlp.activation');
});

test('arm, preview, apply: what it would do first, then the step and the ranks', async ({
  page,
  hub,
}) => {
  await visit(page, hub);
  await arm(page);
  const box = page.getByTestId('armed');
  await expect(box).toBeFocused();
  await expect(box.getByTestId('program-write')).toContainText('layers[2].output');
  await expect(box.getByTestId('program-when')).toHaveText('training · all steps');
  await page.getByLabel('Value of alpha').fill('30');
  await expect(box.getByRole('alert')).toHaveText('alpha: from 0 to 20');
  await expect(page.getByTestId('apply-program')).toBeDisabled();
  await page.getByLabel('Value of alpha').fill('8');
  await page.getByTestId('preview').click();
  const preview = page.getByTestId('preview-result');
  await expect(preview.getByRole('row', { name: 'last training batch' })).toHaveText(
    /2\.3100\s*2\.3900\s*\+0\.0800$/,
  );
  await expect(preview.getByRole('row', { name: 'first evaluation batch' })).toHaveText(
    /2\.4000\s*2\.3750\s*−0\.0250$/,
  );
  await expect(preview.getByRole('row', { name: 'layers[2].output' })).toHaveText(
    new RegExp(`${grouped(kPositions)}\\s*320\\.00\\s*32\\.000\\s*10\\.0 %$`),
  );
  expect(asked(hub, 'intervention.preview')).toMatchObject([
    { program: kSteer, parameters: { alpha: 8 } },
  ]);
  await page.screenshot({ path: 'test-results/interventions-preview.png' });
  expect(hub.interventions.programs).toEqual([]);
  await page.getByLabel('For how many steps').fill('500');
  await page.getByLabel('Stays when the lease of control ends').check();
  await page.getByTestId('apply-program').click();
  expect(await settled(hub, 'intervention.apply')).toEqual({
    ...{ name: 'steer', program: kSteer, parameters: { alpha: 8 }, ttl: 500, keep: true },
  });
  const force = page.getByTestId('interventions-in-force');
  await expect(force).toHaveText(
    'steer is in force from step 121 on 2/2 ranks; it has not acted yet',
  );
  hub.advance();
  const words = `applied at step 121 on 2/2 ranks, ${grouped(2 * kPositions)} positions`;
  await expect(force).toHaveText(`steer ${words}`);
  const card = page.getByTestId('program-steer');
  await expect(card).toContainText('in force from step 121 to 620, stays when the lease ends');
  await expect(card).toContainText(words);
  hub.advance();
  await expect(card).toContainText(`in all ${grouped(4 * kPositions)} positions in 4 forwards`);
  await page.screenshot({ path: 'test-results/interventions-applied.png' });
});

async function settled(
  hub: FakeHub,
  method: string,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  await expect.poll(() => asked(hub, method).length).toBeGreaterThan(0);
  return asked(hub, method).at(-1);
}

test('a preview is of what stands in the form, and a refusal is shown', async ({ page, hub }) => {
  await visit(page, hub);
  await arm(page);
  await page.getByTestId('preview').click();
  await expect(page.getByTestId('preview-result')).toBeVisible();
  await page.getByLabel('Value of alpha').fill('9');
  await expect(page.getByTestId('preview-result')).toHaveCount(0);
  hub.interventions.refusal = {
    code: 'invalid_argument',
    message: '32 programs are in force',
    where: 'name',
    remedy: 'revert one',
  };
  await page.getByTestId('apply-program').click();
  await expect(page.getByTestId('armed-error')).toHaveText(
    /^32 programs are in force\s+revert one/,
  );
  await expect(page.getByTestId('armed')).toBeVisible();
  // What is typed is another program: it is armed no more.
  await type(page, `${kSteer}\n`, 'steer');
  await expect(page.getByTestId('armed')).toHaveCount(0);
});

for (const kind of ['told', 'silent'] as const) {
  test(`a token that only views: checking needs another, ${kind}`, async ({ page, hub }) => {
    hub.viewOnly = kind;
    await visit(page, hub);
    await type(page, kSteer);
    await expect(page.getByTestId('program-verdict')).toHaveText(
      "Not checked: checking needs the run's token; this one only views.",
    );
    await expect(page.getByTestId('arm')).toBeDisabled();
    expect(asked(hub, 'intervention.check')).toHaveLength(kind === 'told' ? 0 : 1);
  });
}

test('a draft survives a reload and travels with the link, but not a very long one', async ({
  page,
  hub,
  context,
}) => {
  await visit(page, hub);
  const text = `${kSteer}\n\n  # é "50 %" & so on`;
  await type(page, text, 'my steer');
  await idle(page);
  await page.reload();
  await expect(page.getByTestId('program-text')).toHaveValue(text);
  await expect(page.getByLabel('Name of the program')).toHaveValue('my steer');
  const other = await context.newPage();
  await other.goto(page.url());
  await expect(other.getByTestId('program-text')).toHaveValue(text);
  await expect(other.getByTestId('program-verdict')).toHaveText(/^The program is fine/);
  await expect(page.getByTestId('program-too-long')).toHaveCount(0);
  await type(page, `${text}\n`.repeat(40));
  await expect(page.getByTestId('program-too-long')).toBeVisible();
  await idle(page);
  expect(new URL(page.url()).searchParams.get('program')).toBeNull();
});

test('Edit brings a program back into the editor; Enter keeps the indentation', async ({
  page,
  hub,
}) => {
  await visit(page, hub);
  await apply(page);
  await type(page, '');
  await page.getByRole('button', { name: 'Edit' }).click();
  const field = page.getByTestId('program-text');
  await expect(field).toHaveValue(kSteer);
  await expect(page.getByLabel('Name of the program')).toHaveValue('steer');
  await field.fill('x = (1 +\n    2 +');
  await field.press('End');
  await page.keyboard.press('Control+End');
  await page.keyboard.press('Enter');
  await page.keyboard.type('3)');
  await expect(field).toHaveValue('x = (1 +\n    2 +\n    3)');
});

test('the keyboard goes all the way, and the palette reverts', async ({ page, hub }) => {
  await open(page, hub);
  await page.locator('body').press('7');
  const field = page.getByTestId('program-text');
  await expect(field).toBeVisible();
  await field.focus();
  await page.keyboard.insertText(kSteer);
  await expect(page.getByTestId('arm')).toBeEnabled();
  await page.keyboard.press('Control+Enter');
  await expect(page.getByTestId('armed')).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('arm')).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('armed')).toBeFocused();
  await page.keyboard.press('Tab');
  await expect(page.getByLabel('Value of alpha')).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('program-program')).toBeVisible();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('revert all');
  await expect(page.getByTestId('palette').getByRole('option').first()).toContainText(
    'Revert all interventions',
  );
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('program-count')).toHaveText('0');
});

for (const colorScheme of ['dark', 'light'] as const) {
  test(`no serious finding of axe in interventions, ${colorScheme}`, async ({ page, hub }) => {
    await page.emulateMedia({ colorScheme });
    await visit(page, hub);
    await apply(page);
    hub.advance();
    await type(page, kSteer.replace('vector', 'vetcor'), 'steer');
    await expect(page.getByTestId('program-error')).toBeVisible();
    await page.screenshot({ path: `test-results/interventions-wrong-${colorScheme}.png` });
    expect(await seriousFindings(page)).toEqual([]);
    await arm(page);
    await page.getByTestId('preview').click();
    await expect(page.getByTestId('preview-result')).toBeVisible();
    await page.screenshot({ path: `test-results/interventions-${colorScheme}.png` });
    expect(await seriousFindings(page)).toEqual([]);
    await page.getByTestId('disarm').click();
    await page.screenshot({ path: `test-results/interventions-check-${colorScheme}.png` });
    expect(await seriousFindings(page)).toEqual([]);
    await page.setViewportSize({ width: 640, height: 360 });
    for (const id of ['arm', 'revert-all', 'program-text']) {
      await page.getByTestId(id).scrollIntoViewIfNeeded();
      await expect(page.getByTestId(id)).toBeInViewport();
    }
  });
}
