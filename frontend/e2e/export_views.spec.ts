import { expect, type Page } from '@playwright/test';
import {
  kHeads,
  kLayers,
  kSequence,
  kStatsWidth,
  logitAt,
  projectionAt,
  statAt,
  tokenAt,
} from './fake_data.ts';
import type { FakeHub } from './fake_hub.ts';
import {
  contributionAt,
  entropyAt,
  kParameters,
  kUpdateColumns,
  lensNumbers,
  topTokenAt,
  updateAt,
} from './fake_derived.ts';
import { hexOf, hexOfAxis, read, save } from './export_support.ts';
import type { Entry } from './fake_tensors.ts';
import { advance, idle, kSmoke, open, test } from './support.ts';

// Files of the views beyond one layer: number by number what the hub sent, however small it is drawn.

const kHidden = 7;
const kTokens: Entry = { point: 'InputTokens' };
const kTiles = 192;
const f32 = Math.fround;

async function watch(page: Page, hub: FakeHub, entry: Entry, testid: string): Promise<void> {
  hub.plan = { number: 1, entries: [entry, kTokens] };
  await open(page, hub, testid);
}

/** Numbers of layers, each over places, row by row. */
function byLayer(places: number, value: (layer: number, place: number) => number): number[] {
  return Array.from({ length: kLayers * places }, (_, i) =>
    value(Math.floor(i / places) + 1, i % places),
  );
}

test('all layers: every tile of every token, though the maps are folded', async ({ page, hub }) => {
  const compressor = { kind: 'tile', tiles: kTiles };
  await watch(page, hub, { point: 'HiddenStates', compressor }, 'tile-map');
  await page.getByRole('button', { name: 'all layers', exact: true }).click();
  await idle(page);
  const folded = await page.evaluate(() => window.__tt?.app.frame?.maps?.[0]?.rows);
  expect(folded).toBeLessThan(kTiles);
  const { arrays, facts } = read(await save(page, 'npz'));
  for (let layer = 1; layer <= kLayers; layer++) {
    const sent = Float32Array.from({ length: kTiles * kSequence }, (_, i) =>
      hub.value(kHidden, layer, 120, i % kSequence, Math.floor(i / kSequence), kTiles),
    );
    const array = arrays[`layer_${layer}`];
    expect(array).toMatchObject({ dtype: 'float32', shape: [kTiles, kSequence] });
    expect(array.hex === hexOf(sent), `layer ${layer}`).toBe(true);
  }
  const tokens = Int32Array.from({ length: kSequence }, (_, at) => tokenAt(120, at));
  expect(arrays.tokens.hex).toBe(hexOf(tokens));
  expect(facts).toMatchObject({
    bound: 'equal to the numbers on the wire',
    units: 'activation, mean over tile',
    axes: { layer_2: ['tile', 'position'] },
  });
  expect(facts).not.toHaveProperty('layer');
});

test('over the steps: one number of each layer and step', async ({ page, hub }) => {
  hub.firstKept = hub.step;
  await open(page, hub);
  await advance(page, hub, 2);
  hub.step += 3;
  await advance(page, hub);
  await page.getByRole('button', { name: 'over steps', exact: true }).click();
  await idle(page);
  const { arrays, facts } = read(await save(page, 'npz'));
  const steps = [120, 121, 122, 126];
  expect(arrays.axis_step.hex).toBe(hexOfAxis(steps));
  const means = byLayer(steps.length, (layer, at) => {
    let sum = 0;
    for (let token = 0; token < kSequence; token++) {
      for (let tile = 0; tile < 64; tile++) {
        sum += hub.value(kHidden, layer, steps[at], token, tile, 64);
      }
    }
    return sum / (kSequence * 64);
  });
  expect(arrays.over.shape).toEqual([kLayers, steps.length]);
  expect(arrays.over.hex).toBe(hexOf(Float32Array.from(means)));
  expect(facts.bound).toContain('summed up in float64');
});

/** Where the record has a number of the table: ten in the first row, the others in the second. */
function inRecord(index: number): number {
  return index < 10 ? index : index - 10 + kStatsWidth;
}

test('statistics: the table, the histogram and the curves', kSmoke, async ({ page, hub }) => {
  hub.firstKept = hub.step;
  const entry = { point: 'HiddenStates', compressor: { kind: 'stats' } };
  await watch(page, hub, entry, 'stats-table');
  await page.getByTestId('layer').selectOption('3');
  await advance(page, hub, 3);
  const { arrays } = read(await save(page, 'npz'));
  const table = byLayer(18, (layer, index) => f32(statAt(layer, 123, inRecord(index))));
  expect(arrays.stats).toMatchObject({ dtype: 'float64', shape: [kLayers, 18] });
  expect(arrays.stats.hex).toBe(hexOf(Float64Array.from(table)));
  const bins = Float64Array.from({ length: 48 }, (_, bin) => f32(statAt(3, 123, 10 + bin)));
  expect(arrays.histogram.hex).toBe(hexOf(bins));
  const steps = [120, 121, 122, 123];
  expect(arrays.axis_step.hex).toBe(hexOfAxis(steps));
  for (const [name, index] of [
    ['mean', 1],
    ['std', 2],
    ['rms', kStatsWidth + 1],
    ['kurtosis', kStatsWidth],
  ] as const) {
    const lines = byLayer(steps.length, (layer, at) => f32(statAt(layer, steps[at], index)));
    expect(arrays[`${name}_by_step`].hex, name).toBe(hexOf(Float64Array.from(lines)));
  }
});

test('projections: the tokens of this step, and the curves', async ({ page, hub }) => {
  hub.firstKept = hub.step;
  const compressor = { kind: 'projection', vectors: ['evil', 'sycophancy'] };
  await watch(page, hub, { point: 'HiddenStates', compressor }, 'projection-map');
  await page.getByTestId('vector').selectOption('sycophancy');
  await advance(page, hub, 2);
  const { arrays, facts } = read(await save(page, 'npz'));
  const at = (layer: number, step: number, token: number): number =>
    f32(projectionAt(layer, step, 0, token, 1));
  const sent = byLayer(kSequence, (layer, token) => at(layer, 122, token));
  expect(arrays.projection.hex).toBe(hexOf(Float32Array.from(sent)));
  const last = byLayer(3, (layer, i) => at(layer, 120 + i, kSequence - 1));
  expect(arrays.last_by_step.hex).toBe(hexOf(Float64Array.from(last)));
  const means = byLayer(3, (layer, i) => {
    let sum = 0;
    for (let token = 0; token < kSequence; token++) sum += at(layer, 120 + i, token);
    return sum / kSequence;
  });
  expect(arrays.mean_by_step.hex).toBe(hexOf(Float64Array.from(means)));
  expect(facts).toMatchObject({
    vector: 'sycophancy',
    units: 'activation along sycophancy',
    steps: 'all steps that the page keeps',
  });
});

/** The mean over the tokens of a row, of numbers as they are on the wire. */
function meanOf(value: (token: number) => number): number {
  let sum = 0;
  for (let token = 0; token < kSequence; token++) sum += f32(value(token)) / kSequence;
  return sum;
}

test('the lens: best tokens with their probabilities, losses and entropies', async ({
  page,
  hub,
}) => {
  const compressor = { kind: 'topk', k: 5 };
  await watch(page, hub, { point: 'LogitLens', compressor }, 'lens-grid');
  const { arrays } = read(await save(page, 'npz'));
  const of = (index: number): number[] =>
    byLayer(kSequence, (layer, token) => f32(lensNumbers(layer, 120, token)[index]));
  const bestIds = byLayer(kSequence, (_, token) => logitAt(120, token, 0).id);
  expect(arrays.best.hex).toBe(hexOf(Int32Array.from(bestIds)));
  expect(arrays.best.shape).toEqual([kLayers, kSequence]);
  expect(arrays.entropy.hex).toBe(hexOf(Float64Array.from(of(1))));
  expect(arrays.loss.hex).toBe(hexOf(Float64Array.from(of(2))));
  const logSumExps = of(0);
  const shares = logSumExps.map((logSumExp, cell) =>
    Math.exp(f32(logitAt(120, cell % kSequence, 0).value) - logSumExp),
  );
  // The exponentials of two programs may differ in the last bit.
  const saved = Buffer.from(arrays.best_probability.hex, 'hex');
  const farthest = shares.map((share, cell) => Math.abs(saved.readDoubleLE(8 * cell) - share));
  expect(saved.length).toBe(8 * shares.length);
  expect(Math.max(...farthest)).toBeLessThan(1e-15);
});

test('attention health: by head, by token and over the steps', async ({ page, hub }) => {
  hub.firstKept = hub.step;
  const compressor = { kind: 'none' };
  await watch(page, hub, { point: 'attention.entropy', compressor }, 'health-map');
  await page
    .getByTestId('head-grid')
    .getByRole('button', { name: /^L1, head 2/ })
    .click();
  await advance(page, hub, 2);
  const { arrays, facts } = read(await save(page, 'npz'));
  const byHead = byLayer(kHeads, (layer, head) =>
    meanOf((token) => entropyAt(layer, 122, token, head)),
  );
  expect(arrays.by_head.hex).toBe(hexOf(Float64Array.from(byHead)));
  const byToken = byLayer(kSequence, (layer, token) => entropyAt(layer, 122, token, 2));
  expect(arrays.by_token.hex).toBe(hexOf(Float32Array.from(byToken)));
  const bySteps = byLayer(3, (layer, at) =>
    meanOf((token) => entropyAt(layer, 120 + at, token, 2)),
  );
  expect(arrays.by_step.hex).toBe(hexOf(Float64Array.from(bySteps)));
  expect(arrays.axis_step.hex).toBe(hexOfAxis([120, 121, 122]));
  expect(facts).toMatchObject({ head: 2 });
});

test('contributions: by token, by layer and over the steps', async ({ page, hub }) => {
  hub.firstKept = hub.step;
  const compressor = { kind: 'none' };
  await watch(page, hub, { point: 'mlp.contribution', compressor }, 'contribution-map');
  await advance(page, hub, 2);
  const { arrays } = read(await save(page, 'npz'));
  const byToken = byLayer(kSequence, (layer, token) => contributionAt(layer, 122, token));
  expect(arrays.by_token.hex).toBe(hexOf(Float32Array.from(byToken)));
  const byStep = byLayer(3, (layer, at) =>
    meanOf((token) => contributionAt(layer, 120 + at, token)),
  );
  expect(arrays.by_step.hex).toBe(hexOf(Float64Array.from(byStep)));
  const newest = byStep.filter((_, at) => at % 3 === 2);
  expect(arrays.by_layer.hex).toBe(hexOf(Float64Array.from(newest)));
});

test('updates: the table, with the names of its rows and columns', async ({ page, hub }) => {
  await watch(page, hub, { point: 'Updates', compressor: { kind: 'none' } }, 'updates');
  const { arrays, facts } = read(await save(page, 'npz'));
  const table = kParameters.flatMap((_, row) =>
    kUpdateColumns.map((__, column) => f32(updateAt(120, row, column))),
  );
  expect(arrays.updates.shape).toEqual([kParameters.length, kUpdateColumns.length]);
  expect(arrays.updates.hex).toBe(hexOf(Float64Array.from(table)));
  expect(facts).toMatchObject({
    parameters: kParameters.join(' '),
    columns: kUpdateColumns.join(' '),
  });
});

test('top tokens: the list of the chosen unit with its text', async ({ page, hub }) => {
  const compressor = { kind: 'top_tokens', columns: [3, 17], k: 5 };
  await watch(page, hub, { point: 'HiddenStates', compressor }, 'top-tokens');
  await page.getByTestId('top-unit').selectOption('1');
  await idle(page);
  const { arrays, facts } = read(await save(page, 'npz'));
  const best = Array.from({ length: 5 }, (_, rank) => topTokenAt(120, 1, rank));
  for (const [index, name] of ['value', 'step', 'row', 'position'].entries()) {
    const sent = Float64Array.from(best, (numbers) => numbers[index]);
    expect(arrays[name].hex, name).toBe(hexOf(sent));
  }
  expect(arrays.ids.shape).toEqual([5, 33]);
  expect(arrays.ids.hex).toBe(hexOf(Int32Array.from(best.flatMap((of) => of.slice(4)))));
  expect(facts).toMatchObject({ unit: 'column 17' });
});
