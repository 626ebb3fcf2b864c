import { expect, type Locator } from '@playwright/test';
import { apply, asked, kSteer, type, visit } from './interventions_support.ts';
import { kSpike, test } from './recorded.ts';
import { kSmoke } from './support.ts';

// Programs in force: sliders, reverting, events, saved values, who may.

test('50 fast moves of a slider: one request at a time, and the last value stays', async ({
  page,
  hub,
}) => {
  await visit(page, hub);
  await apply(page);
  hub.interventions.setDelayMs = 60;
  const slider = page.getByRole('slider', { name: 'alpha of steer' });
  await slider.evaluate((element) => {
    const input = element as HTMLInputElement;
    for (let i = 1; i <= 50; i++) {
      input.value = String(i / 5);
      input.dispatchEvent(new Event('input', { bubbles: true }));
    }
  });
  const field = page.getByRole('textbox', { name: 'alpha of steer' });
  await expect(field).toHaveValue('10');
  await expect(page.getByTestId('dial-step-alpha')).toHaveText('from step 121');
  const sent = (): unknown[] => asked(hub, 'intervention.set').map(({ value }) => value);
  await expect.poll(sent).toEqual([0.2, 10]);
  await expect.poll(() => hub.interventions.programs[0].parameters[0].value).toBe(10);
  expect(hub.interventions.mostSets).toBe(1);
  await slider.press('ArrowRight');
  await expect(field).toHaveValue('10.1');
  // A number between two places of the slider.
  await field.fill('9.53');
  await field.press('Enter');
  await expect.poll(() => hub.interventions.programs[0].parameters[0].value).toBe(9.53);
  await expect(field).toHaveValue('9.53');
  await field.fill('21');
  await field.press('Enter');
  await expect(page.getByTestId('program-steer').getByRole('alert')).toHaveText(
    'alpha: from 0 to 20',
  );
  await slider.press('ArrowRight');
  await expect(page.getByTestId('program-steer').getByRole('alert')).toHaveCount(0);
  await expect.poll(() => asked(hub, 'intervention.set').at(-1)?.value).toBe(9.6);
  await expect.poll(() => hub.interventions.programs[0].parameters[0].value).toBe(9.6);
  // Another page turns it: the slider follows.
  const [program] = hub.interventions.programs;
  const parameters = [{ ...program.parameters[0], value: 3 }];
  hub.interventions.become([{ ...program, parameters }], 'set');
  await expect(slider).toHaveValue('3');
  await expect(field).toHaveValue('3');
});

test('a parameter without ends is a field', kSmoke, async ({ page, hub }) => {
  await visit(page, hub);
  await apply(page, 'beta = param(1.0, min=0.5)\nlayers[2].output *= beta', 'scale');
  const field = page.getByRole('textbox', { name: 'beta of scale' });
  await field.fill('0.1');
  await field.press('Enter');
  await expect(page.getByTestId('program-scale').getByRole('alert')).toHaveText('beta: from 0.5');
  await field.fill('2');
  await field.press('Enter');
  await expect(page.getByTestId('dial-step-beta')).toHaveText('from step 121');
  expect(asked(hub, 'intervention.set')).toEqual([{ name: 'scale', parameter: 'beta', value: 2 }]);
});

test('one is reverted, then all; the chip stands on every tab and leads there', async ({
  page,
  hub,
}) => {
  await visit(page, hub);
  const chip = page.getByTestId('interventions-chip');
  await expect(chip).toHaveCount(0);
  for (const name of ['one', 'two', 'three']) await apply(page, kSteer, name);
  await expect(chip).toHaveText(/3\s+interventions/);
  await page.getByRole('button', { name: 'Revert two' }).click();
  await expect(page.getByTestId('program-two')).toHaveCount(0);
  await expect(page.getByTestId('message')).toHaveText('Reverted two from step 121 on (2/2 ranks)');
  for (const tab of ['overview', 'tensors', 'text', 'compare', 'plan']) {
    await page.getByTestId(`tab-${tab}`).click();
    await expect(chip).toHaveText(/2\s+interventions/);
  }
  await chip.click();
  await page.getByTestId('revert-all').click();
  await expect(page.getByTestId('program-count')).toHaveText('0');
  expect(hub.interventions.programs).toEqual([]);
  expect(asked(hub, 'intervention.remove')).toEqual([{ name: 'two' }, {}]);
  await expect(chip).toHaveCount(0);
  await expect(page.getByTestId('revert-all')).toBeDisabled();
});

test('what befell programs stands among the events; what they do at each step does not', async ({
  page,
  hub,
}) => {
  await visit(page, hub);
  await apply(page);
  for (let i = 0; i < 5; i++) hub.advance();
  await page.getByTestId('revert-all').click();
  await expect(page.getByTestId('program-count')).toHaveText('0');
  await apply(page, kSteer, 'late');
  hub.interventions.become([], 'lease');
  await page.getByTestId('tab-overview').click();
  const list = page.getByTestId('event-list').getByRole('listitem');
  const interventions = list.filter({ has: page.getByTitle('intervention', { exact: true }) });
  const wanted = [
    'Reverted late: the lease of control ended',
    'Applied late',
    'Reverted steer',
    'Applied steer',
  ];
  // The audit trail tells the same, and who asked: no line comes twice.
  await expect(interventions.filter({ hasText: 'viewer' })).toHaveCount(3);
  await expect(interventions.locator('.text')).toHaveText(wanted);
  // And that training began, and who took control: nothing of the five steps.
  await expect(list).toHaveCount(6);
  await page.screenshot({ path: 'test-results/interventions-events.png' });
});

test('saved values: the latest of each, single numbers over the steps', async ({ page, hub }) => {
  await visit(page, hub);
  await apply(page, `${kSteer}\nsave(h, "all_rows")`);
  for (let i = 0; i < 3; i++) hub.advance();
  const rows = page.getByTestId('saved').getByRole('row');
  await expect(rows.nth(1)).toHaveText(/steer · late_norm\s*123\s*one number\s*12\.30\s*12\.30/);
  await expect(rows.nth(2)).toHaveText(/steer · all_rows\s*123\s*3\s*−123\.0\s*1\.500\s*1\.50/);
  await expect(rows.nth(2)).toContainText('NaN');
  const chart = page.getByRole('img', { name: 'steer · late_norm by step' });
  await expect(chart.locator('canvas')).toBeVisible();
  // A step that comes leaves the chart as it is, with its cursor and tip.
  const plot = chart.locator('.uplot');
  await plot.evaluate((element) => element.classList.add('kept'));
  hub.advance();
  await expect(rows.nth(1)).toHaveText(/124/);
  await expect(plot).toHaveClass(/kept/);
});

test('while another holds control all is shown and nothing can be done', async ({ page, hub }) => {
  await visit(page, hub);
  await apply(page);
  hub.setHolder({ session: 'v99', name: 'Ada' });
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

test('what is in force is known to a page that comes later', async ({ page, hub, context }) => {
  await visit(page, hub);
  await apply(page);
  const other = await context.newPage();
  await other.goto(hub.url);
  await expect(other.getByTestId('interventions-chip')).toHaveText(/1\s+intervention$/);
});
