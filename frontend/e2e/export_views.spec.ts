import { expect, type Page } from '@playwright/test';
import { hexOf, hexOfAxis, read, save } from './export_support.ts';
import {
  type Expected,
  kBest,
  kFull,
  kFullBefore,
  kHeads,
  kLayers,
  kTokens,
  type Replay,
  test,
} from './recorded.ts';
import { idle, kSmoke } from './support.ts';

// Files of the views beyond one layer: number by number what the recording holds, however small it is drawn.

const kSteps = [kFullBefore, kFull];

async function show(page: Page, recorded: Replay, query: string, testid: string): Promise<void> {
  await page.goto(recorded.at(query));
  await expect(page.getByTestId(testid)).toBeVisible();
  await idle(page);
}

/** Numbers of layers, each over places, row by row. */
function byLayer(places: number, value: (layer: number, place: number) => number): number[] {
  return Array.from({ length: kLayers * places }, (_, i) =>
    value(Math.floor(i / places) + 1, i % places),
  );
}

const kColumns = 256;
const kFewTokens = 2;

test('all layers: every column of every token, though the maps are folded', async ({
  page,
  recorded,
}) => {
  const { expected } = recorded;
  await show(page, recorded, 'point=MLPActivation&maps=all', 'layer-maps');
  const folded = await page.evaluate(() => window.__tt?.app.frame?.maps?.[0]?.rows);
  expect(folded).toBeLessThan(kColumns);
  const { arrays, facts } = read(await save(page, 'npz'));
  for (let layer = 1; layer <= kLayers; layer++) {
    const values = expected.values('activation', layer, kFull);
    const sent = Float32Array.from(
      { length: kColumns * kFewTokens },
      (_, i) => values[(i % kFewTokens) * kColumns + Math.floor(i / kFewTokens)],
    );
    const array = arrays[`layer_${layer}`];
    expect(array).toMatchObject({ dtype: 'float32', shape: [kColumns, kFewTokens] });
    expect(array.hex === hexOf(sent), `layer ${layer}`).toBe(true);
  }
  const tokens = Int32Array.from({ length: kFewTokens }, (_, at) => expected.token(kFull, at));
  expect(arrays.tokens.hex).toBe(hexOf(tokens));
  expect(facts).toMatchObject({
    bound: 'equal to the numbers on the wire',
    units: 'activation',
    axes: { layer_2: ['tile', 'position'] },
  });
  expect(facts).not.toHaveProperty('layer');
});

test('over the steps: one number of each layer and step', async ({ page, recorded }) => {
  await show(page, recorded, 'point=MLP1&maps=over', 'over-map');
  const { arrays, facts } = read(await save(page, 'npz'));
  const steps = [5, 10, 15, 20, 25, 30];
  expect(arrays.axis_step.hex).toBe(hexOfAxis(steps));
  const means = byLayer(steps.length, (layer, at) => {
    const values = recorded.expected.values('mlp', layer, steps[at]);
    return values.reduce((sum, each) => sum + each, 0) / values.length;
  });
  expect(arrays.over.shape).toEqual([kLayers, steps.length]);
  expect(arrays.over.hex).toBe(hexOf(Float32Array.from(means)));
  expect(facts.bound).toContain('summed up in float64');
});

/** Where the record has a number of the table: ten in the first row, the others in the second. */
function inRecord(index: number): number {
  return index < 10 ? index : index - 10 + kSecondRow;
}
const kSecondRow = 58;

test('statistics: the table, the histogram and the curves', kSmoke, async ({ page, recorded }) => {
  const { expected } = recorded;
  await show(page, recorded, 'point=HiddenStates+·+stats&layer=3', 'stats-table');
  const { arrays } = read(await save(page, 'npz'));
  const table = byLayer(18, (layer, index) => expected.stat(layer, kFull, inRecord(index)));
  expect(arrays.stats).toMatchObject({ dtype: 'float64', shape: [kLayers, 18] });
  expect(arrays.stats.hex).toBe(hexOf(Float64Array.from(table)));
  const bins = Float64Array.from({ length: 48 }, (_, bin) => expected.stat(3, kFull, 10 + bin));
  expect(arrays.histogram.hex).toBe(hexOf(bins));
  const steps = Array.from({ length: kFull }, (_, at) => at + 1);
  expect(arrays.axis_step.hex).toBe(hexOfAxis(steps));
  for (const [name, index] of [
    ['mean', 1],
    ['std', 2],
    ['rms', kSecondRow + 1],
    ['kurtosis', kSecondRow],
  ] as const) {
    const lines = byLayer(steps.length, (layer, at) => expected.stat(layer, steps[at], index));
    expect(arrays[`${name}_by_step`].hex, name).toBe(hexOf(Float64Array.from(lines)));
  }
});

test('projections: the tokens of this step, and the curves', async ({ page, recorded }) => {
  await show(page, recorded, 'point=HiddenStates+·+projection', 'projection-map');
  const { arrays, facts } = read(await save(page, 'npz'));
  const at = (layer: number, step: number, token: number): number =>
    recorded.expected.projection(layer, step, token);
  const sent = byLayer(kTokens, (layer, token) => at(layer, kFull, token));
  expect(arrays.projection.hex).toBe(hexOf(Float32Array.from(sent)));
  const last = byLayer(2, (layer, i) => at(layer, kSteps[i], kTokens - 1));
  expect(arrays.last_by_step.hex).toBe(hexOf(Float64Array.from(last)));
  const means = byLayer(2, (layer, i) => {
    let sum = 0;
    for (let token = 0; token < kTokens; token++) sum += at(layer, kSteps[i], token);
    return sum / kTokens;
  });
  expect(arrays.mean_by_step.hex).toBe(hexOf(Float64Array.from(means)));
  expect(facts).toMatchObject({
    vector: 'evil',
    units: 'activation along evil',
    steps: 'all steps that the page keeps',
  });
});

/** The mean over the tokens of a row. */
function meanOf(value: (token: number) => number): number {
  let sum = 0;
  for (let token = 0; token < kTokens; token++) sum += value(token) / kTokens;
  return sum;
}

test('the lens: best tokens with their probabilities, losses and entropies', async ({
  page,
  recorded,
}) => {
  const { expected } = recorded;
  await show(page, recorded, 'point=LogitLens', 'lens-grid');
  const { arrays } = read(await save(page, 'npz'));
  const of = (index: number): number[] =>
    byLayer(kTokens, (layer, token) => expected.softmax(kFull, token, layer)[index]);
  const best = byLayer(kTokens, (layer, token) => expected.best(kFull, token, 0, layer).id);
  expect(new Set(best).size).toBeGreaterThan(1);
  expect(arrays.best.hex).toBe(hexOf(Int32Array.from(best)));
  expect(arrays.best.shape).toEqual([kLayers, kTokens]);
  expect(arrays.entropy.hex).toBe(hexOf(Float64Array.from(of(1))));
  expect(arrays.loss.hex).toBe(hexOf(Float64Array.from(of(2))));
  const logSumExps = of(0);
  const scores = byLayer(kTokens, (layer, token) => expected.best(kFull, token, 0, layer).value);
  const shares = logSumExps.map((logSumExp, cell) => Math.exp(scores[cell] - logSumExp));
  // The exponentials of two programs may differ in the last bit.
  const saved = Buffer.from(arrays.best_probability.hex, 'hex');
  const farthest = shares.map((share, cell) => Math.abs(saved.readDoubleLE(8 * cell) - share));
  expect(saved.length).toBe(8 * shares.length);
  expect(Math.max(...farthest)).toBeLessThan(1e-15);
});

test('attention health: by head, by token and over the steps', async ({ page, recorded }) => {
  const { expected } = recorded;
  await show(page, recorded, 'point=attention.entropy', 'health-map');
  await page
    .getByTestId('head-grid')
    .getByRole('button', { name: /^L1, head 2/ })
    .click();
  await idle(page);
  const { arrays, facts } = read(await save(page, 'npz'));
  const byHead = byLayer(kHeads, (layer, head) =>
    meanOf((token) => expected.entropy(layer, kFull, token, head)),
  );
  expect(arrays.by_head.hex).toBe(hexOf(Float64Array.from(byHead)));
  const byToken = byLayer(kTokens, (layer, token) => expected.entropy(layer, kFull, token, 2));
  expect(arrays.by_token.hex).toBe(hexOf(Float32Array.from(byToken)));
  const bySteps = byLayer(2, (layer, at) =>
    meanOf((token) => expected.entropy(layer, kSteps[at], token, 2)),
  );
  expect(arrays.by_step.hex).toBe(hexOf(Float64Array.from(bySteps)));
  expect(arrays.axis_step.hex).toBe(hexOfAxis(kSteps));
  expect(facts).toMatchObject({ head: 2 });
});

test('contributions: by token, by layer and over the steps', async ({ page, recorded }) => {
  await show(page, recorded, 'point=mlp.contribution', 'contribution-map');
  const { arrays } = read(await save(page, 'npz'));
  const at = (layer: number, step: number, token: number): number =>
    recorded.expected.values('contribution', layer, step)[token];
  const byToken = byLayer(kTokens, (layer, token) => at(layer, kFull, token));
  expect(arrays.by_token.hex).toBe(hexOf(Float32Array.from(byToken)));
  const byStep = byLayer(2, (layer, i) => meanOf((token) => at(layer, kSteps[i], token)));
  expect(arrays.by_step.hex).toBe(hexOf(Float64Array.from(byStep)));
  const newest = byStep.filter((_, i) => i % 2 === 1);
  expect(arrays.by_layer.hex).toBe(hexOf(Float64Array.from(newest)));
});

test('updates: the table, with the names of its rows and columns', async ({ page, recorded }) => {
  const { parameters, columns } = recorded.expected.updates;
  await show(page, recorded, 'point=Updates', 'updates');
  const { arrays, facts } = read(await save(page, 'npz'));
  expect(parameters.length).toBeGreaterThan(4 * kLayers);
  expect(arrays.updates.shape).toEqual([parameters.length, columns.length]);
  const sent = Float64Array.from(recorded.expected.values('updates', 0, kFull));
  expect(arrays.updates.hex).toBe(hexOf(sent));
  expect(facts).toMatchObject({ parameters: parameters.join(' '), columns: columns.join(' ') });
});

/** What a list of top tokens holds of one: value, step, row, position, and 33 ids. */
function topTokens(expected: Expected, layer: number, unit: number): readonly number[][] {
  const values = expected.values('topTokens', layer, kFull);
  const width = 4 + 33;
  return Array.from({ length: kBest }, (_, rank) => {
    const at = (unit * kBest + rank) * width;
    return [...values.subarray(at, at + width)];
  });
}

test('top tokens: the list of the chosen unit with its text', async ({ page, recorded }) => {
  await show(page, recorded, 'point=HiddenStates+·+top_tokens', 'top-tokens');
  await page.getByTestId('top-unit').selectOption('1');
  await idle(page);
  const { arrays, facts } = read(await save(page, 'npz'));
  const best = topTokens(recorded.expected, 1, 1);
  for (const [index, name] of ['value', 'step', 'row', 'position'].entries()) {
    const sent = Float64Array.from(best, (numbers) => numbers[index]);
    expect(arrays[name].hex, name).toBe(hexOf(sent));
  }
  expect(arrays.ids.shape).toEqual([kBest, 33]);
  expect(arrays.ids.hex).toBe(hexOf(Int32Array.from(best.flatMap((of) => of.slice(4)))));
  expect(facts).toMatchObject({ unit: 'column 17' });
});
