import AxeBuilder from '@axe-core/playwright';
import { expect, type Locator, type Page } from '@playwright/test';
import type { FakeHub } from './fake_hub.ts';
import { kPositions } from './fake_interventions.ts';
import { advance, idle, open, test } from './support.ts';

// The Interventions view: type, check, arm, preview, apply, turn, revert.

const kSteer = [
  'alpha = param(4.0, min=0.0, max=20.0)',
  'h = layers[2].output',
  'layers[2].output = h + alpha * vector("evil")[2]',
  'save(h.norm(dim=-1).mean(), "late_norm")',
].join('\n');

async function visit(page: Page, hub: FakeHub, query = ''): Promise<void> {
  await page.goto(`http://127.0.0.1:${hub.port}/?tab=interventions${query}#token=${hub.token}`);
  await expect(page.getByTestId('program-text')).toBeVisible();
  await idle(page);
}

async function type(page: Page, text: string, name = ''): Promise<void> {
  await page.getByLabel('Name of the program').fill(name);
  await page.getByTestId('program-text').fill(text);
}

async function arm(page: Page, text = kSteer, name = 'steer'): Promise<void> {
  await type(page, text, name);
  await page.getByTestId('arm').click();
  await expect(page.getByTestId('armed')).toBeVisible();
}

async function apply(page: Page, text = kSteer, name = 'steer'): Promise<void> {
  await arm(page, text, name);
  await page.getByTestId('apply-program').click();
  await expect(page.getByTestId(`program-${name}`)).toBeVisible();
}

function asked(hub: FakeHub, method: string): readonly Readonly<Record<string, unknown>>[] {
  return hub.requests.filter((each) => each.method === method).map(({ params }) => params);
}

/** As the page writes large numbers. */
function grouped(number: number): string {
  return number.toLocaleString('en-US').replace(/,/g, '\u202f');
}

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

test('an error stands in the text, with line, column and caret', async ({ page, hub }) => {
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
    /2\.3100\s+2\.3900\s+\+0\.0800$/,
  );
  await expect(preview.getByRole('row', { name: 'first evaluation batch' })).toHaveText(
    /2\.4000\s+2\.3750\s+−0\.0250$/,
  );
  await expect(preview.getByRole('row', { name: 'layers[2].output' })).toHaveText(
    new RegExp(`${grouped(kPositions)}\\s+320\\.00\\s+32\\.000\\s+10\\.0 %$`),
  );
  expect(asked(hub, 'intervention.preview')).toEqual([
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
  await expect(page.getByTestId('dial-alpha')).toHaveText(/^10\.00\s+from step 121$/);
  const sent = asked(hub, 'intervention.set').map(({ value }) => value);
  expect(sent).toEqual([0.2, 10]);
  expect(hub.interventions.mostSets).toBe(1);
  expect(hub.interventions.programs[0].parameters[0].value).toBe(10);
  await slider.press('ArrowRight');
  await expect(page.getByTestId('dial-alpha')).toContainText('10.10');
  expect(await slider.inputValue()).toBe('10.1');
  // Another page turns it: the slider follows.
  const [program] = hub.interventions.programs;
  const parameters = [{ ...program.parameters[0], value: 3 }];
  hub.interventions.become([{ ...program, parameters }], 'set');
  await expect(slider).toHaveValue('3');
});

test('a parameter without ends is a field', async ({ page, hub }) => {
  await visit(page, hub);
  await apply(page, 'beta = param(1.0, min=0.5)\nlayers[2].output *= beta', 'scale');
  const field = page.getByRole('textbox', { name: 'beta of scale' });
  await field.fill('0.1');
  await field.press('Enter');
  await expect(page.getByTestId('program-scale').getByRole('alert')).toHaveText('beta: from 0.5');
  await field.fill('2');
  await field.press('Enter');
  await expect(page.getByTestId('dial-beta')).toContainText('2.000');
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
  await expect(page.getByTestId('message')).toHaveText(
    'Reverted two: step 121 runs without on 2/2 ranks',
  );
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
  await advance(page, hub, 0);
  for (let i = 0; i < 5; i++) hub.advance();
  await page.getByTestId('revert-all').click();
  await expect(page.getByTestId('program-count')).toHaveText('0');
  await apply(page, kSteer, 'late');
  hub.interventions.become([], 'lease');
  await page.getByTestId('tab-overview').click();
  const list = page.getByTestId('event-list').getByRole('listitem');
  const interventions = list.filter({ hasText: 'Intervention' });
  const wanted = [
    'Intervention late reverted: the lease of control ended',
    'Intervention late applied',
    'Intervention steer reverted',
    'Intervention steer applied',
  ];
  // The audit trail tells the same, and who asked: no line comes twice.
  await expect(interventions.filter({ hasText: 'viewer' })).toHaveCount(3);
  await expect(interventions.locator('.text')).toHaveText(wanted);
  await expect(list).toHaveCount(5);
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
    page.getByTestId('arm'),
    page.getByRole('button', { name: 'Revert steer' }),
    page.getByRole('slider', { name: 'alpha of steer' }),
  ];
  for (const control of locked) await expect(control).toBeDisabled();
  await page.screenshot({ path: 'test-results/interventions-read-only.png' });
  await page.getByTestId('interventions-claim').click();
  await expect(page.getByTestId('interventions-access')).toHaveText('You hold control.');
  for (const control of locked) await expect(control).toBeEnabled();
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

test('a replay shows the programs and their counters; its buttons are off', async ({
  page,
  hub,
}) => {
  hub.setReplay(1, 300);
  await visit(page, hub);
  const recorded = { name: 'steer', text: kSteer, since: 13, saves: [], keep: false };
  const parameters = [{ name: 'alpha', value: 4, min: 0, max: 20 }];
  const writes = [{ place: 'layers[2].output' }];
  hub.interventions.become([{ ...recorded, parameters, writes }], 'apply');
  hub.interventions.stepped(120);
  const card = page.getByTestId('program-steer');
  await expect(card).toContainText('applied at step 120 on 2/2 ranks');
  await expect(page.getByTestId('interventions-access')).toHaveText(/^A recording runs nothing/);
  await expect(page.getByRole('slider', { name: 'alpha of steer' })).toBeDisabled();
  await expect(page.getByTestId('revert-all')).toBeDisabled();
  await type(page, kSteer);
  await expect(page.getByTestId('program-verdict')).toHaveText('A recording checks no programs.');
  expect(asked(hub, 'intervention.check')).toEqual([]);
});

test('what is in force is known to a page that comes later', async ({ page, hub, context }) => {
  await visit(page, hub);
  await apply(page);
  const other = await context.newPage();
  await other.goto(hub.url);
  await expect(other.getByTestId('interventions-chip')).toHaveText(/1\s+intervention$/);
});

test('the keyboard goes all the way, and the palette reverts', async ({ page, hub }) => {
  await open(page, hub);
  await page.locator('body').press('6');
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
  await expect(page.getByRole('option').first()).toContainText('Revert all interventions');
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
