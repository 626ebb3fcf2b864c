import { expect, type Locator, mergeTests, type Page } from '@playwright/test';
import { formatNumber } from '../src/base/format.ts';
import { apply, kSteer, type, visit } from './interventions_support.ts';
import {
  advance,
  kHidden,
  kMicroBatch,
  kTokens,
  type RealRun,
  test as realTest,
  type TrailLine,
} from './real_run.ts';
import { kSpike, test as recordedTest } from './recorded.ts';
import { kSmoke } from './support.ts';

// Programs in force: sliders, reverting, events, saved values, who may.

const test = mergeTests(realTest, recordedTest);

interface Dialled {
  readonly parameters: readonly { readonly value: number }[];
}

/** The value that the only program has for its only parameter. */
async function expectInForce(run: RealRun, value: number): Promise<void> {
  const now = (): number => (run.programs[0] as unknown as Dialled).parameters[0].value;
  await expect.poll(now).toBe(value);
}

/** Moves a slider 50 times, faster than the page draws. */
async function move(slider: Locator): Promise<void> {
  await slider.evaluate((element) => {
    const input = element as HTMLInputElement;
    for (let i = 1; i <= 50; i++) {
      input.value = String(i / 5);
      input.dispatchEvent(new Event('input', { bubbles: true }));
    }
  });
}

async function valuesSent(run: RealRun): Promise<readonly unknown[]> {
  return (await run.asked('intervention.set')).map(({ value }) => value);
}

test('50 fast moves of a slider: one request at a time, and the last value stays', async ({
  page,
  run,
}) => {
  await visit(page, run);
  await apply(page);
  const slider = page.getByRole('slider', { name: 'alpha of steer' });
  await move(slider);
  const field = page.getByRole('textbox', { name: 'alpha of steer' });
  await expect(field).toHaveValue('10');
  await expect(page.getByTestId('dial-step-alpha')).toHaveText('from step 1');
  await expect.poll(() => valuesSent(run)).toEqual([0.2, 10]);
  await expectInForce(run, 10);
  // Of two requests on their way at once the trainer would refuse the first.
  expect(await run.trail('refused')).toEqual([]);
});

test('a slider and its field: steps, numbers between them, wrong numbers, another page', async ({
  page,
  run,
}) => {
  await visit(page, run);
  await apply(page);
  const slider = page.getByRole('slider', { name: 'alpha of steer' });
  const field = page.getByRole('textbox', { name: 'alpha of steer' });
  await slider.press('ArrowRight');
  await expect(field).toHaveValue('4.1');
  // A number between two places of the slider.
  await field.fill('9.53');
  await field.press('Enter');
  await expectInForce(run, 9.53);
  await expect(field).toHaveValue('9.53');
  await field.fill('21');
  await field.press('Enter');
  await expect(page.getByTestId('program-steer').getByRole('alert')).toHaveText(
    'alpha: from 0 to 20',
  );
  await slider.press('ArrowRight');
  await expect(page.getByTestId('program-steer').getByRole('alert')).toHaveCount(0);
  await expect.poll(async () => (await valuesSent(run)).at(-1)).toBe(9.6);
  await expectInForce(run, 9.6);
  // Another page turns it: the slider follows.
  await run.remote.claim('Ada');
  await run.remote.ask('intervention.set', { name: 'steer', parameter: 'alpha', value: 3 });
  await expect(slider).toHaveValue('3');
  await expect(field).toHaveValue('3');
});

test('a parameter without ends is a field', kSmoke, async ({ page, run }) => {
  await visit(page, run);
  await apply(page, 'beta = param(1.0, min=0.5)\nlayers[2].output *= beta', 'scale');
  const field = page.getByRole('textbox', { name: 'beta of scale' });
  await field.fill('0.1');
  await field.press('Enter');
  await expect(page.getByTestId('program-scale').getByRole('alert')).toHaveText('beta: from 0.5');
  await field.fill('2');
  await field.press('Enter');
  await expect(page.getByTestId('dial-step-beta')).toHaveText('from step 1');
  await expect
    .poll(() => run.asked('intervention.set'))
    .toEqual([{ name: 'scale', parameter: 'beta', value: 2 }]);
});

test('one is reverted, then all; the chip stands on every tab and leads there', async ({
  page,
  run,
}) => {
  await visit(page, run);
  const chip = page.getByTestId('interventions-chip');
  await expect(chip).toHaveCount(0);
  for (const name of ['one', 'two', 'three']) await apply(page, kSteer, name);
  await expect(chip).toHaveText(/3\s+interventions/);
  await advance(page);
  await page.getByRole('button', { name: 'Revert two' }).click();
  await expect(page.getByTestId('program-two')).toHaveCount(0);
  await expect(page.getByTestId('message')).toHaveText('Reverted two from step 2 on (2/2 ranks)');
  for (const tab of ['overview', 'tensors', 'text', 'compare', 'plan']) {
    await page.getByTestId(`tab-${tab}`).click();
    await expect(chip).toHaveText(/2\s+interventions/);
  }
  await chip.click();
  await page.getByTestId('revert-all').click();
  await expect(page.getByTestId('program-count')).toHaveText('0');
  expect(run.programs).toEqual([]);
  await expect.poll(() => run.asked('intervention.remove')).toEqual([{ name: 'two' }, {}]);
  await expect(chip).toHaveCount(0);
  await expect(page.getByTestId('revert-all')).toBeDisabled();
});

test('what befell programs stands among the events; what they do at each step does not', async ({
  page,
  run,
}) => {
  await visit(page, run);
  await apply(page, kSteer, 'late');
  // The end of the lease reverts it.
  await page.evaluate(() => window.__tt?.app.control.release());
  await expect(page.getByTestId('program-count')).toHaveText('0');
  await apply(page);
  await advance(page, 5);
  await page.getByTestId('revert-all').click();
  await expect(page.getByTestId('program-count')).toHaveText('0');
  await page.getByTestId('tab-overview').click();
  const list = page.getByTestId('event-list').getByRole('listitem');
  const interventions = list.filter({ has: page.getByTitle('intervention', { exact: true }) });
  const wanted = [
    'Reverted steer',
    'Applied steer',
    'Reverted late: the lease of control ended',
    'Applied late',
  ];
  // The audit trail tells the same, and who asked: no line comes twice.
  await expect(interventions.filter({ hasText: 'viewer' })).toHaveCount(3, { timeout: 20_000 });
  await expect(interventions.locator('.text')).toHaveText(wanted);
  // And that training began and was paused, and who took control, twice, and gave it back: of the
  // five steps only that somebody did them.
  await expect(list).toHaveCount(9);
  await page.screenshot({ path: 'test-results/interventions-events.png' });
});

/** As `saved` has it (docs/protocol.md). */
interface Saved {
  readonly step: number;
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: readonly (number | 'NaN')[];
}

/** What a program saved in a step, by the hub's audit trail. */
async function savedAt(run: RealRun, name: string, step: number): Promise<Saved> {
  let found: Saved | undefined;
  await expect(async () => {
    const answer = await fetch(`${run.url}history/events?kind=saved`);
    const lines = (await answer.json()) as readonly TrailLine[];
    const all = lines.map(({ detail }) => detail as unknown as Saved);
    found = all.find((each) => each.name === name && each.step === step);
    expect(found).toBeDefined();
  }).toPass();
  if (found === undefined) throw new Error(`${name} was not saved`);
  return found;
}

/** Their row of the table: step, shape, smallest, largest, the first numbers. */
function cellsOf({ step, shape, values }: Saved): readonly string[] {
  const finite = values.filter((each) => each !== 'NaN');
  const ends = [Math.min(...finite), Math.max(...finite)].map((each) => formatNumber(each));
  const head = values.slice(0, 8).map((each) => formatNumber(Number(each), 3));
  const more = values.length > head.length ? ' …' : '';
  const size = values.length === 1 ? 'one number' : shape.join(' × ');
  return [String(step), size, ...ends, head.join('  ') + more];
}

function meanOfNorms(values: Saved['values']): number {
  let sum = 0;
  for (let row = 0; row < values.length; row += kHidden) {
    sum += Math.hypot(...values.slice(row, row + kHidden).map(Number));
  }
  return (sum * kHidden) / values.length;
}

async function expectSaved(page: Page, saved: Saved): Promise<void> {
  const row = page.getByTestId('saved').getByRole('row', { name: `steer · ${saved.name}` });
  await expect(row.getByRole('cell').first()).toHaveText(String(saved.step));
  expect(await row.getByRole('cell').allInnerTexts()).toEqual(cellsOf(saved));
}

test('saved values: the latest of each, single numbers over the steps', async ({ page, run }) => {
  await visit(page, run);
  await apply(page, `${kSteer}\nsave(h, "all_rows")\nsave(h[0, 0].sqrt(), "roots")`);
  for (let i = 0; i < 3; i++) await advance(page);
  const norm = await savedAt(run, 'late_norm', 3);
  const rows = await savedAt(run, 'all_rows', 3);
  const roots = await savedAt(run, 'roots', 3);
  expect(rows.shape).toEqual([kMicroBatch, kTokens, kHidden]);
  expect(Number(norm.values[0]) / meanOfNorms(rows.values)).toBeCloseTo(1, 5);
  // Negative numbers have no root.
  const first = rows.values.slice(0, kHidden).map((each) => Number(each) < 0);
  expect(roots.values.map((each) => each === 'NaN')).toEqual(first);
  for (const each of [norm, rows, roots]) await expectSaved(page, each);
  await expect(page.getByTestId('saved').getByRole('row', { name: 'roots' })).toContainText('NaN');
  const chart = page.getByRole('img', { name: 'steer · late_norm by step' });
  await expect(chart.locator('canvas')).toBeVisible();
  // A step that comes leaves the chart as it is, with its cursor and tip.
  const plot = chart.locator('.uplot');
  await plot.evaluate((element) => element.classList.add('kept'));
  await advance(page);
  await expectSaved(page, await savedAt(run, 'late_norm', 4));
  await expect(plot).toHaveClass(/kept/);
});

test('while another holds control all is shown and nothing can be done', async ({ page, run }) => {
  await visit(page, run);
  await apply(page);
  await run.remote.claim('Ada');
  await expect(page.getByTestId('interventions-access')).toHaveText(
    'Read-only: Ada holds control.',
  );
  await expect(page.getByTestId('program-steer')).toBeVisible();
  const locked: readonly Locator[] = [
    page.getByTestId('revert-all'),
    page.getByTestId('preview'),
    page.getByTestId('apply-program'),
    page.getByRole('button', { name: 'Revert steer' }),
    page.getByRole('slider', { name: 'alpha of steer' }),
  ];
  for (const control of locked) await expect(control).toBeDisabled();
  await page.screenshot({ path: 'test-results/interventions-read-only.png' });
  await page.getByTestId('interventions-claim').click();
  await expect(page.getByTestId('interventions-access')).toHaveText('You hold control.');
  for (const control of locked) await expect(control).toBeEnabled();
});

test.describe('a replay', () => {
  test.use({ firstStep: kSpike - 1 });

  test('shows the programs and their counters; its buttons are off', async ({ page, recorded }) => {
    await page.goto(recorded.at('tab=interventions'));
    const card = page.getByTestId('program-spike');
    await expect(card).toContainText('This page has not seen this program act yet.');
    await recorded.advance();
    await expect(card).toContainText(`first seen active at step ${kSpike} on 2/2 ranks`);
    await expect(page.getByTestId('interventions-access')).toHaveText(
      /^A recording does not run the model/,
    );
    await expect(page.getByRole('slider', { name: 'factor of spike' })).toBeDisabled();
    await expect(page.getByTestId('revert-all')).toBeDisabled();
    await type(page, kSteer);
    await expect(page.getByTestId('program-verdict')).toHaveText(
      'Not checked: a recording cannot run programs.',
    );
  });
});

test('what is in force is known to a page that comes later', async ({ page, run, context }) => {
  await visit(page, run);
  await apply(page);
  const other = await context.newPage();
  await other.goto(run.url);
  await expect(other.getByTestId('interventions-chip')).toHaveText(/1\s+intervention$/);
});
