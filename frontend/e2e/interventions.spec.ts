import { expect, type Page } from '@playwright/test';
import { formatNumber } from '../src/base/format.ts';
import {
  apply,
  grouped,
  kSteer,
  lineOf,
  preview,
  ready,
  textOf,
  type,
  visit,
} from './interventions_support.ts';
import { advance, kHidden, kMicroBatch, kTokens, type RealRun, test } from './real_run.ts';
import { idle, kSmoke, seriousOf } from './support.ts';

// The Interventions view: type, check, arm, preview, apply.

/** Tokens of one forward. */
const kPositions = kMicroBatch * kTokens;

test('a program is checked while it is typed; nobody needs the lease for it', async ({
  page,
  run,
}) => {
  await run.remote.claim('Ada');
  await visit(page, run);
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
  const { graph } = await run.remote.ask('intervention.check', { program: kSteer });
  expect(JSON.parse(await page.getByTestId('program-graph').innerText())).toEqual(graph);
  await type(page, `when(phase="eval", steps="100-200", tokens="-1")\n${kSteer}`);
  await expect(check.getByTestId('program-when')).toHaveText(
    'evaluation · steps 100-200 · tokens -1',
  );
});

test('an error stands in the text, with line, column and caret', kSmoke, async ({ page, run }) => {
  await visit(page, run);
  const text = 'h = layers[2].output\nlayers[2].output = h + 4 * vetcor("evil")[2]';
  await type(page, text);
  const error = page.getByTestId('program-error');
  await expect(error).toContainText('line 2, column 28');
  await expect(error).toContainText('there is no "vetcor", did you mean "vector"?');
  await expect(error).toContainText(
    'docs/intervention_graph.md lists what stands in an expression',
  );
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

test("ready-made programs take the run's vector and a middle layer", async ({ page, run }) => {
  await visit(page, run);
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
  run,
}) => {
  await visit(page, run);
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

interface Previewed {
  readonly batches: readonly { readonly loss_off: number; readonly loss_on: number }[];
  readonly writes: readonly { readonly norm_before: number; readonly norm_change: number }[];
}

/** As the table of losses has it. */
function lossCells({ loss_off, loss_on }: Previewed['batches'][number]): readonly string[] {
  const by = loss_on - loss_off;
  const sign = by > 0 ? '+' : '';
  return [formatNumber(loss_off, 5), formatNumber(loss_on, 5), `${sign}${formatNumber(by, 3)}`];
}

/** The length of row 2 of the vector `evil`, as recorded/make_recording.py writes it. */
function lengthOfVector(): number {
  const squares = Array.from({ length: kHidden }, (_, n) => Math.sin(1 + 2 * kHidden + n) ** 2);
  return Math.sqrt(squares.reduce((sum, each) => sum + each));
}

/** The page shows what the trainer has answered. */
async function expectPreviewed(page: Page, { batches, writes }: Previewed): Promise<void> {
  const result = page.getByTestId('preview-result');
  const cellsOf = (name: string): Promise<string[]> =>
    result.getByRole('row', { name }).getByRole('cell').allInnerTexts();
  expect(await cellsOf('last training batch')).toEqual(lossCells(batches[0]));
  expect(await cellsOf('first evaluation batch')).toEqual(lossCells(batches[1]));
  const [{ norm_before, norm_change }] = writes;
  expect(await cellsOf('layers[2].output')).toEqual([
    grouped(kPositions),
    ...[norm_before, norm_change].map((each) => formatNumber(each, 5)),
    `${((100 * norm_change) / norm_before).toPrecision(3)} %`,
  ]);
  // What is added at each position is 8 times the vector.
  const added = 8 * Math.sqrt(kPositions) * lengthOfVector();
  expect(norm_change / added).toBeCloseTo(1, 5);
}

test('preview: what it would do; a value outside its range is refused', async ({ page, run }) => {
  await visit(page, run);
  await ready(page);
  const check = page.getByTestId('program-check');
  await expect(check.getByTestId('program-write')).toContainText('layers[2].output');
  await page.getByLabel('Value of alpha').fill('30');
  await expect(page.getByTestId('value-error')).toHaveText('alpha: from 0 to 20');
  await expect(page.getByTestId('apply-program')).toBeDisabled();
  await page.getByLabel('Value of alpha').fill('8');
  await preview(page);
  const { detail } = await lineOf(run, 'intervention.preview');
  expect(detail.params).toMatchObject({ program: kSteer, parameters: { alpha: 8 } });
  const answer = detail.result as Previewed;
  await expectPreviewed(page, answer);
  await page.screenshot({ path: 'test-results/interventions-preview.png' });
  expect(run.programs).toEqual([]);
});

test('preview, apply: what it would do first, then the step and the ranks; the preview stays', async ({
  page,
  run,
}) => {
  await visit(page, run);
  await ready(page);
  await page.getByLabel('Value of alpha').fill('8');
  await preview(page);
  await page.getByLabel('For how many steps').fill('500');
  await page.getByLabel('Keep in force when the lease ends').check();
  await page.getByTestId('apply-program').click();
  expect((await lineOf(run, 'intervention.apply')).detail.params).toEqual({
    ...{ name: 'steer', program: kSteer, parameters: { alpha: 8 }, ttl: 500, keep: true },
  });
  const force = page.getByTestId('interventions-in-force');
  await expect(force).toHaveText(
    'steer is in force from step 1 on 2/2 ranks; it has not acted yet',
  );
  await expect(page.getByTestId('preview-state')).toHaveText('Applied: in force from step 1.');
  await expect(page.getByTestId('preview-result')).toBeVisible();
  await advance(page);
  const words = `applied at step 1 on 2/2 ranks, ${grouped(kPositions)} positions`;
  await expect(force).toHaveText(`steer ${words}`);
  // Step 1 trains on the batch of the preview, with the same weights.
  const { batches } = (await lineOf(run, 'intervention.preview')).detail.result as Previewed;
  await expect.poll(() => run.remote.told('step')?.loss).toBeCloseTo(batches[0].loss_on, 5);
  const card = page.getByTestId('program-steer');
  await expect(card).toContainText('in force from step 1 to 500, stays when the lease ends');
  await expect(card).toContainText(words);
  for (let step = 2; step <= 9; step++) {
    await advance(page);
    await expect(card).toContainText(`step ${step}: ${kPositions} positions in 1 forward`);
  }
  await expect(card).toContainText(`in total ${grouped(9 * kPositions)} positions in 9 forwards`);
  await expect(page.getByTestId('program-replaces')).toHaveText(
    'Apply replaces the steer that is in force.',
  );
  await page.screenshot({ path: 'test-results/interventions-applied.png' });
});

/** So many programs may be in force at a time. */
const kMaxPrograms = 32;

/** Another viewer applies as many programs as a run takes. They stay when nobody holds control. */
async function fill(run: RealRun): Promise<void> {
  await run.remote.claim('Ada');
  for (let i = 1; i <= kMaxPrograms; i++) {
    const program = 'layers[1].output *= 1.0';
    await run.remote.ask('intervention.apply', { name: `other ${i}`, program, keep: true });
  }
  await run.remote.release();
}

test('a preview says when the editor has another program; a refusal is shown', async ({
  page,
  run,
}) => {
  await fill(run);
  await visit(page, run);
  await ready(page);
  await preview(page);
  const state = page.getByTestId('preview-state');
  await page.getByLabel('Value of alpha').fill('9');
  await expect(state).toHaveText('The editor has another program now: preview again.');
  await expect(page.getByTestId('preview-result')).toBeVisible();
  await page.getByTestId('apply-program').click();
  await expect(page.getByTestId('refusal')).toHaveText(
    /^32 programs are in force already\s+remove one/,
  );
  // What is typed is another program: the refusal was about the last, and values stand in the text.
  await type(page, `${kSteer}\n`, 'steer');
  await expect(page.getByTestId('refusal')).toHaveCount(0);
  await expect(page.getByLabel('Value of alpha')).toHaveValue('4');
});

async function expectNotChecked(page: Page): Promise<void> {
  await type(page, kSteer);
  await expect(page.getByTestId('program-verdict')).toHaveText(
    "Not checked: the check needs the run's token. This token allows only viewing.",
  );
  await expect(page.getByTestId('preview')).toBeDisabled();
}

test.describe('with tokens', () => {
  test.use({ flags: ['--tensor-tracer-auth', 'token'] });

  test('a token that only views: checking needs another', async ({ page, run }) => {
    await visit(page, { url: run.signIn('', 'viewer_token') });
    // The page knows it before it asks for a check.
    await expect(page.getByTestId('interventions-access')).toHaveText(
      'Read-only: this token allows only viewing.',
    );
    await expectNotChecked(page);
  });
});

test('a draft survives a reload and travels with the link, but not a very long one', async ({
  page,
  run,
  context,
}) => {
  await visit(page, run);
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
  run,
}) => {
  await visit(page, run);
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

test('the keyboard goes all the way, and the palette reverts', async ({ page, run }) => {
  await page.goto(run.url);
  await expect(page.getByTestId('chip')).toHaveText('ready to start');
  await advance(page);
  await expect(page.getByTestId('tile-map')).toBeVisible();
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
  test(`no serious finding of axe in interventions, ${colorScheme}`, async ({ page, run }) => {
    await page.emulateMedia({ colorScheme });
    await visit(page, run);
    await apply(page);
    await advance(page);
    await type(page, kSteer.replace('vector', 'vetcor'), 'steer');
    await expect(page.getByTestId('program-error')).toBeVisible();
    await page.screenshot({ path: `test-results/interventions-wrong-${colorScheme}.png` });
    expect(await seriousOf(page)).toEqual([]);
    await ready(page);
    await page.getByTestId('preview').click();
    await expect(page.getByTestId('preview-result')).toBeVisible();
    await page.screenshot({ path: `test-results/interventions-${colorScheme}.png` });
    expect(await seriousOf(page)).toEqual([]);
    await page.setViewportSize({ width: 640, height: 360 });
    for (const id of ['preview', 'revert-all', 'program-text']) {
      await page.getByTestId(id).scrollIntoViewIfNeeded();
      await expect(page.getByTestId(id)).toBeInViewport();
    }
  });
}
