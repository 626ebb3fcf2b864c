import { expect, mergeTests, type Page } from '@playwright/test';
import { advance, test as withRun, type TrailLine, visit } from './real_run.ts';
import {
  type Expected,
  kLayers,
  kPrompts,
  kTokens,
  type Replay,
  test as withRecorded,
} from './recorded.ts';
import { choose, digits, idle, kSmoke, seriousOf, spotOf, tipValue } from './support.ts';

// The view Traits: the vectors of an entry over layers and steps, and a second run beside.

const test = mergeTests(withRecorded, withRun);

const kVectors = ['evil', 'sycophancy'] as const;
const kProbes = { point: 'HiddenStates', prompts: 'probes', rows: 0 } as const;
const asWritten = (value: number): string => value.toPrecision(4).replace('-', '−');

async function openTraits(page: Page, recorded: Replay, query = ''): Promise<void> {
  await page.goto(recorded.at(`tab=traits${query}`));
  await expect(page.getByTestId('trait-map-0')).toBeVisible();
  await idle(page);
}

/** The projections of the prompts' own tokens on a vector, prompt by prompt. */
function ofPrompts(expected: Expected, layer: number, step: number, vector: number): number[][] {
  const width = Math.max(...kPrompts.map(({ length }) => length));
  const all = expected.values('prompts', layer, step, 'eval');
  return kPrompts.map(({ length }, row) =>
    Array.from({ length }, (_, token) => all[kVectors.length * (row * width + token) + vector]),
  );
}

function meanOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
}

async function hover(
  page: Page,
  testid: string,
  [row, col]: readonly [number, number],
  steps: number,
): Promise<void> {
  const map = page.getByTestId(testid);
  await map.scrollIntoViewIfNeeded();
  await map.hover({ position: await spotOf(map, row, col, kLayers, steps) });
}

test('each trait: a map of layers by steps, and a curve', kSmoke, async ({ page, recorded }) => {
  const { expected } = recorded;
  const steps = expected.steps('prompts').filter((step) => step <= 30);
  await openTraits(page, recorded, '&over=mean&layer=2');
  for (const [index, vector] of kVectors.entries()) {
    const label = `${vector}: HiddenStates, ${kLayers} layers by ${steps.length} steps`;
    await expect(page.getByLabel(label)).toBeVisible();
    await hover(page, `trait-map-${index}`, [2, 1], steps.length);
    const mean = meanOf(ofPrompts(expected, 3, steps[1], index).flat());
    expect(await tipValue(page)).toBeCloseTo(mean, 5);
    await expect(page.getByTestId('tip')).toContainText(vector);
  }
  const readout = page.getByTestId('traits-readout');
  await page.mouse.move(5, 5);
  for (const [index, vector] of kVectors.entries()) {
    const mean = meanOf(ofPrompts(expected, 2, 30, index).flat());
    await expect(readout).toContainText(`${vector} ${asWritten(mean)}`);
  }
  await choose(page, 'last token');
  const ends = ofPrompts(expected, 2, 30, 0).map((tokens) => tokens.at(-1) ?? Number.NaN);
  await expect(readout).toContainText(`evil ${asWritten(meanOf(ends))}`);
  await page.screenshot({ path: 'test-results/traits.png' });
});

test('the difference to the first step', async ({ page, recorded }) => {
  const { expected } = recorded;
  const steps = expected.steps('prompts').filter((step) => step <= 30);
  await openTraits(page, recorded, '&over=mean&layer=2');
  await choose(page, `difference to step ${steps[0]}`);
  const meanAt = (layer: number, step: number): number =>
    meanOf(ofPrompts(expected, layer, step, 0).flat());
  await hover(page, 'trait-map-0', [3, steps.length - 1], steps.length);
  expect(await tipValue(page)).toBeCloseTo(meanAt(4, 30) - meanAt(4, steps[0]), 5);
  await hover(page, 'trait-map-0', [3, 0], steps.length);
  expect(await tipValue(page)).toBe(0);
  await page.mouse.move(5, 5);
  const difference = meanAt(2, 30) - meanAt(2, steps[0]);
  const readout = await page.getByTestId('traits-readout').innerText();
  expect(Number(/evil (\S+)/.exec(readout)?.[1].replace('−', '-'))).toBeCloseTo(difference, 4);
  expect(new URL(page.url()).searchParams.get('traitsas')).toBe('difference');
});

test('a click on a map opens its step, layer and trait', async ({ page, recorded }) => {
  const { expected } = recorded;
  const steps = expected.steps('prompts').filter((step) => step <= 30);
  await openTraits(page, recorded);
  const map = page.getByTestId('trait-map-1');
  await map.scrollIntoViewIfNeeded();
  await map.click({ position: await spotOf(map, 2, 1, kLayers, steps.length) });
  await expect(page.getByTestId('shown-step')).toHaveText(`step ${steps[1]}`);
  await expect(page.getByTestId('layer')).toHaveValue('3');
  await expect(page.getByTestId('vector')).toHaveValue('1');
  const text = page.getByTestId('token-colors');
  await expect(text).toHaveText(kPrompts[0]);
  await text.locator('[data-col="5"]').hover();
  expect(await tipValue(page)).toBe(digits(ofPrompts(expected, 3, steps[1], 1)[0][5]));
  await page.getByTestId('row').selectOption({ label: '1 def f(' });
  await expect(text).toHaveText(kPrompts[1]);
});

test('traits are hidden and shown again', async ({ page, recorded }) => {
  await openTraits(page, recorded);
  await page.getByTestId('trait-0').click();
  await expect(page.getByTestId('trait-map-0')).toHaveCount(0);
  await expect(page.getByTestId('trait-map-1')).toBeVisible();
  await expect(page.getByTestId('traits-readout')).not.toContainText('evil');
  await page.reload();
  await expect(page.getByTestId('trait-map-1')).toBeVisible();
  await expect(page.getByTestId('trait-map-0')).toHaveCount(0);
  await page.getByTestId('trait-1').click();
  await expect(page.getByTestId('no-trait')).toBeVisible();
  await page.getByTestId('trait-0').click();
  await expect(page.getByTestId('trait-map-0')).toBeVisible();
});

test.describe('two runs', () => {
  test.use({ compares: true });

  test('stand side by side, with one scale and one axis', async ({ page, recorded, baseline }) => {
    const own = 'HiddenStates+·+projection';
    await openTraits(page, recorded, `&point=${own}&over=mean&layer=2`);
    await page.getByTestId('beside').selectOption('baseline');
    await expect(
      page.getByLabel('evil: baseline: HiddenStates, 4 layers by 3 steps'),
    ).toBeVisible();
    await idle(page);
    const meanAt = (expected: Expected, entry: 'projection' | 'besides', step: number): number =>
      meanOf([...expected.values(entry, 2, step)].slice(0, kTokens));
    await hover(page, 'beside-map-0', [1, 1], 3);
    expect(await tipValue(page)).toBeCloseTo(meanAt(baseline, 'besides', 10), 5);
    await hover(page, 'trait-map-0', [1, 1], 2);
    expect(await tipValue(page)).toBeCloseTo(meanAt(recorded.expected, 'projection', 30), 5);
    const high = (name: string): Promise<string> =>
      page.getByLabel(`Colour legend of the map of ${name}`).locator('.high').innerText();
    expect(await high('evil: baseline')).toBe(await high('evil: recorded'));
    await page.getByTestId('trait-maps').scrollIntoViewIfNeeded();
    await page.screenshot({ path: 'test-results/traits-two-runs.png' });
    await page.mouse.move(5, 5);
    await expect(page.getByTestId('traits-readout')).toContainText('evil, baseline –');
    await expect(page.getByTestId('token-colors')).toHaveCount(2);
    expect(await seriousOf(page)).toEqual([]);
  });

  test('the page says why a run has nothing to show', async ({ page, recorded }) => {
    const problem = page.getByTestId('beside-problem');
    await openTraits(page, recorded);
    await page.getByTestId('beside').selectOption('baseline');
    await expect(problem).toHaveText('baseline does not trace HiddenStates · probes · projection.');
    await openTraits(page, recorded, `&runb=${'9'.repeat(16)}`);
    await expect(problem).toContainText(`The hub offers no run ${'9'.repeat(16)}`);
  });
});

test('without projections the page says how to get them', async ({ page, run }) => {
  await visit(page, run, 'tab=traits', 'start');
  await advance(page);
  await expect(page.getByTestId('no-traits')).toContainText('Persona vectors');
  expect(await seriousOf(page)).toEqual([]);
  await page.getByRole('button', { name: 'Open the plan' }).click();
  await expect(page.getByTestId('plan-list')).toBeVisible();
});

test('the last row of a map is that of the final norm', kSmoke, async ({ page, run }) => {
  const compressor = { kind: 'projection', vectors: ['evil'] };
  const entries = [{ point: 'HiddenStates', layers: '1-3' }, { point: 'FinalNorm' }];
  await run.setPlan(...entries.map((entry) => ({ ...entry, compressor })), {
    point: 'InputTokens',
  });
  await visit(page, run, 'tab=traits&over=mean', 'start');
  await advance(page, 3);
  await expect(
    page.getByLabel('evil: HiddenStates, 3 layers and FinalNorm by 3 steps'),
  ).toBeVisible();
  await hover(page, 'trait-map-0', [3, 1], 3);
  await expect(page.getByTestId('tip')).toContainText('FinalNorm');
  const inMap = await tipValue(page);
  await page.getByTestId('trait-map-0').click({
    position: await spotOf(page.getByTestId('trait-map-0'), 3, 1, kLayers, 3),
  });
  // The click opens the entry itself.
  await expect(page.getByLabel('evil: FinalNorm, 1 layer by 3 steps')).toBeVisible();
  const own = page.getByTestId('trait-map-0');
  await own.hover({ position: await spotOf(own, 0, 1, 1, 3) });
  expect(await tipValue(page)).toBe(inMap);
  expect(await seriousOf(page)).toEqual([]);
});

test('limits of alarms are lines in the chart', kSmoke, async ({ page, run }) => {
  const compressor = { kind: 'projection', vectors: ['evil'] };
  await run.setPlan({ point: 'HiddenStates', compressor }, { point: 'InputTokens' });
  const alarm = { point: 'HiddenStates', vector: 'evil' };
  await run.remote.control('alarms.set', { ...alarm, name: 'high', test: 'above', value: 50 });
  const slope = { test: 'rising', value: 1, window: 5 };
  await run.remote.control('alarms.set', { ...alarm, name: 'slope', ...slope });
  await visit(page, run, 'tab=traits&over=mean', 'start');
  await advance(page, 5);
  await expect(page.getByTestId('unlimited')).toHaveText(/: slope$/);
  const chart = page.getByLabel('Projections of HiddenStates on evil by step');
  const box = await chart.boundingBox();
  if (box === null) throw new Error('the chart is not on the page');
  // The line of the limit is far above the curve, at the top of the chart.
  const tip = page.getByTestId('line-tip');
  await page.mouse.move(box.x + box.width / 2, box.y + 14);
  await expect(tip).toHaveText('limit of high 50.00');
  await page.screenshot({ path: 'test-results/traits-alarms.png' });
});

test.describe('a run that continues its prompts', () => {
  test.use({ flags: ['--monitor-generate-interval', '10', '--monitor-max-new-tokens', '4'] });

  test('a response is coloured by its projections', async ({ page, run }) => {
    const compressor = { kind: 'projection', vectors: ['evil'] };
    await run.setPlan({ ...kProbes, compressor }, { ...kProbes, point: 'InputTokens' });
    await visit(page, run, 'tab=traits', 'start');
    await advance(page, 10);
    await expect(page.getByTestId('trait-response')).toBeVisible();
    let told: readonly TrailLine[] = [];
    await expect.poll(async () => (told = await run.trail('response')).length).toBeGreaterThan(0);
    const [response] = told;
    await page.getByTestId('colour-response').click();
    const heading = 'Prompt and response of step 10, with the weights after step 10';
    await expect(page.getByRole('heading', { name: heading })).toBeVisible();
    const coloured = page.getByTestId('token-colors').last();
    const count = kPrompts[0].length + (response.detail.token_ids as number[]).length;
    await expect(coloured.locator('[data-col]')).toHaveCount(count);
    await coloured.locator('[data-col]').last().hover();
    expect(Number.isFinite(await tipValue(page))).toBe(true);
    expect(await seriousOf(page)).toEqual([]);
  });
});

for (const colorScheme of ['dark', 'light'] as const) {
  test(`no serious finding of axe in the traits, ${colorScheme}`, async ({ page, recorded }) => {
    await page.emulateMedia({ colorScheme });
    await openTraits(page, recorded);
    expect(await seriousOf(page)).toEqual([]);
    await page.screenshot({ path: `test-results/traits-${colorScheme}.png` });
  });
}
