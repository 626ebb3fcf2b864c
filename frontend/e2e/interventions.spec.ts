import AxeBuilder from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';
import type { FakeHub } from './fake_hub.ts';
import { kPositions } from './fake_interventions.ts';
import {
  apply,
  asked,
  grouped,
  kSteer,
  ready,
  textOf,
  type,
  visit,
} from './interventions_support.ts';
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
    /layers\[2\]\.output\s+whole tensor on every rank/,
  );
  await expect(check).toContainText('late_norm');
  await expect(check.getByTestId('program-when')).toHaveText('training · all steps');
  await expect(check).toContainText(grouped(kPositions));
  await expect(check).toContainText('alpha from 0 to 20');
  await expect(page.getByLabel('Value of alpha')).toHaveValue('4');
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
  await expect(page.getByTestId('apply-program')).toBeDisabled();
  await expect(page.getByTestId('program-check')).toHaveCount(0);
  await expect(page.getByTestId('program-mark')).toHaveText('vetcor');
  await page.screenshot({ path: 'test-results/interventions-error.png' });
  await error.getByRole('button').click();
  await page.keyboard.type('vector');
  await expect(error).toHaveCount(0);
  expect(await textOf(page)).toBe(text.replace('vetcor', 'vector'));
  await expect(page.getByTestId('apply-program')).toBeEnabled();
});

test("ready-made programs take the run's vector and a middle layer", async ({ page, hub }) => {
  await visit(page, hub);
  await page.getByTestId('first-steer').click();
  await expect(page.getByLabel('Name of the program')).toHaveValue('steer');
  expect(await textOf(page)).toContain('layers[2].output = h + alpha * vector("evil")[2]');
  // Buttons stand in an empty editor only: a click loses no text.
  await expect(page.getByTestId('program-first')).toHaveCount(0);
  const choice = page.getByLabel('Ready-made programs');
  expect((await choice.locator('option').allInnerTexts()).length).toBeGreaterThan(20);
  await choice.selectOption('cap');
  await page.getByTestId('program-fill').click();
  expect(await textOf(page)).toMatch(/^# Cap an activation.*\n[^]*p\.clamp\(low, high\)/);
  await page.keyboard.press('Control+z');
  expect(await textOf(page)).toContain('alpha * vector("evil")[2]');
});

test('the editor has colours, and completes places, vectors and operators', async ({
  page,
  hub,
}) => {
  await visit(page, hub);
  const field = page.getByTestId('program-text');
  const options = page.locator('.cm-tooltip-autocomplete').getByRole('option');
  await field.focus();
  await page.keyboard.type('h = layers[2].ou');
  await expect(options.first()).toContainText('output');
  await options.first().click();
  await expect.poll(() => textOf(page)).toBe('h = layers[2].output');
  await page.keyboard.press('Enter');
  await page.keyboard.type('x = h + 2 * vector("syc');
  await expect(options.first()).toContainText('sycophancy');
  await page.screenshot({ path: 'test-results/interventions-completion.png' });
  await options.first().click();
  await page.keyboard.type('[1].nor');
  await expect(options.first()).toContainText('norm(');
  await page.keyboard.press('Escape');
  await expect(options).toHaveCount(0);
  expect(await textOf(page)).toBe('h = layers[2].output\nx = h + 2 * vector("sycophancy")[1].nor');
  const colors = await field
    .locator('.cm-line span')
    .evaluateAll((spans) => spans.map((span) => getComputedStyle(span).color));
  expect(new Set(colors).size).toBeGreaterThan(2);
  // The button asks for it, at an empty line too.
  await page.keyboard.press('Enter');
  await page.getByTestId('program-complete').click();
  await expect(options.filter({ hasText: 'layers[2].mlp.output' })).toHaveCount(1);
});

test('preview, apply: what it would do first, then the step and the ranks; the preview stays', async ({
  page,
  hub,
}) => {
  await visit(page, hub);
  await ready(page);
  const check = page.getByTestId('program-check');
  await expect(check.getByTestId('program-write')).toContainText('layers[2].output');
  await page.getByLabel('Value of alpha').fill('30');
  await expect(page.getByTestId('value-error')).toHaveText('alpha: from 0 to 20');
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
  await expect(page.getByTestId('preview-state')).toHaveText('Not applied yet.');
  await page.getByLabel('For how many steps').fill('500');
  await page.getByLabel('Keep in force when the lease ends').check();
  await page.getByTestId('apply-program').click();
  expect(await settled(hub, 'intervention.apply')).toEqual({
    ...{ name: 'steer', program: kSteer, parameters: { alpha: 8 }, ttl: 500, keep: true },
  });
  const force = page.getByTestId('interventions-in-force');
  await expect(force).toHaveText(
    'steer is in force from step 121 on 2/2 ranks; it has not acted yet',
  );
  await expect(page.getByTestId('preview-state')).toHaveText('Applied: in force from step 121.');
  await expect(preview).toBeVisible();
  hub.advance();
  const words = `applied at step 121 on 2/2 ranks, ${grouped(2 * kPositions)} positions`;
  await expect(force).toHaveText(`steer ${words}`);
  const card = page.getByTestId('program-steer');
  await expect(card).toContainText('in force from step 121 to 620, stays when the lease ends');
  await expect(card).toContainText(words);
  hub.advance();
  await expect(card).toContainText(`in total ${grouped(4 * kPositions)} positions in 4 forwards`);
  await expect(page.getByTestId('program-replaces')).toHaveText(
    'Apply replaces the steer that is in force.',
  );
  await page.screenshot({ path: 'test-results/interventions-applied.png' });
});

async function settled(
  hub: FakeHub,
  method: string,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  await expect.poll(() => asked(hub, method).length).toBeGreaterThan(0);
  return asked(hub, method).at(-1);
}

test('a preview says when the editor has another program; a refusal is shown', async ({
  page,
  hub,
}) => {
  await visit(page, hub);
  await ready(page);
  await page.getByTestId('preview').click();
  const state = page.getByTestId('preview-state');
  await expect(state).toHaveText('Not applied yet.');
  await page.getByLabel('Value of alpha').fill('9');
  await expect(state).toHaveText('The editor has another program now: preview again.');
  await expect(page.getByTestId('preview-result')).toBeVisible();
  hub.interventions.refusal = {
    code: 'invalid_argument',
    message: '32 programs are in force',
    where: 'name',
    remedy: 'revert one',
  };
  await page.getByTestId('apply-program').click();
  await expect(page.getByTestId('refusal')).toHaveText(/^32 programs are in force\s+revert one/);
  // What is typed is another program: the refusal was about the last, and values stand in the text.
  await type(page, `${kSteer}\n`, 'steer');
  await expect(page.getByTestId('refusal')).toHaveCount(0);
  await expect(page.getByLabel('Value of alpha')).toHaveValue('4');
});

for (const kind of ['told', 'silent'] as const) {
  test(`a token that only views: checking needs another, ${kind}`, async ({ page, hub }) => {
    hub.viewOnly = kind;
    await visit(page, hub);
    await type(page, kSteer);
    await expect(page.getByTestId('program-verdict')).toHaveText(
      "Not checked: the check needs the run's token. This token allows only viewing.",
    );
    await expect(page.getByTestId('preview')).toBeDisabled();
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
  await expect.poll(() => textOf(page)).toBe(text);
  await expect(page.getByLabel('Name of the program')).toHaveValue('my steer');
  const other = await context.newPage();
  await other.goto(page.url());
  await expect.poll(() => textOf(other)).toBe(text);
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
  await expect.poll(() => textOf(page)).toBe(kSteer);
  await expect(page.getByLabel('Name of the program')).toHaveValue('steer');
  await field.fill('x = (1 +\n    2 +');
  await page.keyboard.press('Control+End');
  await page.keyboard.press('Enter');
  await page.keyboard.type('3)');
  await expect.poll(() => textOf(page)).toBe('x = (1 +\n    2 +\n    3)');
});

test('the keyboard goes all the way, and the palette reverts', async ({ page, hub }) => {
  await open(page, hub);
  await page.locator('body').press('7');
  const field = page.getByTestId('program-text');
  await expect(field).toBeVisible();
  await field.focus();
  await page.keyboard.insertText(kSteer);
  await expect(page.getByTestId('preview')).toBeEnabled();
  await page.keyboard.press('Control+Enter');
  await expect(page.getByTestId('preview-result')).toBeVisible();
  await expect(field).toBeFocused();
  await page.keyboard.press('Tab');
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
    await ready(page);
    await page.getByTestId('preview').click();
    await expect(page.getByTestId('preview-result')).toBeVisible();
    await page.screenshot({ path: `test-results/interventions-${colorScheme}.png` });
    expect(await seriousFindings(page)).toEqual([]);
    await page.setViewportSize({ width: 640, height: 360 });
    for (const id of ['preview', 'revert-all', 'program-text']) {
      await page.getByTestId(id).scrollIntoViewIfNeeded();
      await expect(page.getByTestId(id)).toBeInViewport();
    }
  });
}
