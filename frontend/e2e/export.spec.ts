import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect } from '@playwright/test';
import {
  attentionAt,
  kHeads,
  kLayers,
  kSequence,
  logitAt,
  stepFacts,
  tileValue,
  tokenAt,
} from './fake_data.ts';
import { hexOf, hexOfAxis, read, save } from './export_support.ts';
import type { Entry } from './fake_tensors.ts';
import { decodePng } from './png.ts';
import { hoverTile, idle, kSmoke, open, pixels, spotOf, test } from './support.ts';

// Files that the page saves, read back by other programs: numpy for NPZ, a decoder for PNG.

const kTokens: Entry = { point: 'InputTokens' };
const tiles = (kind: string, dtype: string): Entry => ({
  point: 'HiddenStates',
  compressor: { kind, tiles: 64 },
  dtype,
});

/** Tiles down, tokens across, as float64. */
function tileMap(layer: number, step: number): Float64Array {
  const out = new Float64Array(64 * kSequence);
  for (let tile = 0; tile < 64; tile++) {
    for (let token = 0; token < kSequence; token++) {
      out[tile * kSequence + token] = tileValue(7, layer, step, token, tile, 64);
    }
  }
  return out;
}

test.describe('NPZ', () => {
  test.use({
    options: { poison: (layer, token) => (layer === 2 && token === 5 ? NaN : undefined) },
  });

  test('maps: numpy reads the very bits that the hub sent, NaN too', async ({ page, hub }) => {
    await open(page, hub);
    await page.getByTestId('layer').selectOption('2');
    await idle(page);
    const path = await save(page, 'npz');
    expect(path).toContain('tensor-tracer-shakespeare-demo-HiddenStates-layer2-step120.npz');
    const { arrays, facts } = read(path);
    const sent = Float32Array.from(tileMap(2, 120));
    for (let tile = 0; tile < 64; tile++) sent[tile * kSequence + 5] = Number.NaN;
    expect(arrays.tiles).toMatchObject({ dtype: 'float32', shape: [64, kSequence] });
    expect(arrays.tiles.hex === hexOf(sent)).toBe(true);
    expect(arrays.layers.shape).toEqual([kLayers, kSequence]);
    const tokens = Int32Array.from({ length: kSequence }, (_, at) => tokenAt(120, at));
    expect(arrays.tokens.hex).toBe(hexOf(tokens));
    expect(arrays.axis_layer.hex).toBe(hexOfAxis([1, 2, 3, 4]));
    expect(facts).toMatchObject({
      run: 'shakespeare-demo',
      run_id: '5f0c12ab34cd56ef',
      step: 120,
      point: 'HiddenStates',
      layer: 2,
      dtype: 'f32',
      bound: 'equal to the numbers on the wire',
      axes: { tiles: ['tile', 'position'], layers: ['layer', 'position'] },
    });
  });
});

test('NPZ of float64, of attention, and of the largest keeps every bit', async ({ page, hub }) => {
  hub.plan = {
    number: 1,
    entries: [
      tiles('tile', 'f64'),
      { point: 'RawAttentionScore', tokens: [0, 32] },
      { point: 'Logits', compressor: { kind: 'topk', k: 5 } },
      kTokens,
    ],
  };
  await open(page, hub);
  const double = read(await save(page, 'npz')).arrays;
  expect(double.tiles.dtype).toBe('float64');
  const sent = tileMap(1, 120).map(Math.fround);
  expect(double.tiles.hex === hexOf(sent)).toBe(true);
  await page.getByTestId('point').selectOption('RawAttentionScore');
  await page.getByTestId('head').selectOption('2');
  await expect(page.getByRole('heading', { name: 'head 2' })).toBeVisible();
  await idle(page);
  const attention = read(await save(page, 'npz'));
  for (let head = 0; head < kHeads; head++) {
    const scores = new Float32Array(32 * kSequence).map((_, i) =>
      attentionAt(1, head, Math.floor(i / kSequence), i % kSequence, 120),
    );
    const array = attention.arrays[`attention_head_${head}`];
    expect(array.shape).toEqual([32, kSequence]);
    expect(array.hex === hexOf(scores), `head ${head}`).toBe(true);
  }
  expect(attention.facts).toMatchObject({ heads: kHeads, units: 'attention probability' });
  await page.getByTestId('tab-text').click();
  await expect(page.getByTestId('predictions')).toBeVisible();
  await idle(page);
  const best = read(await save(page, 'npz')).arrays;
  const ids = new Int32Array(5 * kSequence);
  ids.forEach((_, i) => (ids[i] = logitAt(120, i % kSequence, Math.floor(i / kSequence)).id));
  expect(best.ids.hex).toBe(hexOf(ids));
  const ranks = new Int32Array(kSequence).fill(1);
  ranks[kSequence - 1] = -1;
  expect(best.next_rank.hex).toBe(hexOf(ranks));
});

test('u8 is exported with its bound, and keeps it', kSmoke, async ({ page, hub }) => {
  hub.plan = { number: 1, entries: [tiles('tile', 'u8'), kTokens] };
  await open(page, hub);
  const { arrays, facts } = read(await save(page, 'npz'));
  expect(facts.bound).toContain('(largest - smallest) / 504');
  const got = new Float32Array(Uint8Array.from(Buffer.from(arrays.tiles.hex, 'hex')).buffer);
  const sent = tileMap(1, 120).map(Math.fround);
  let worst = 0;
  for (let token = 0; token < kSequence; token++) {
    const places = Array.from({ length: 64 }, (_, tile) => tile * kSequence + token);
    const line = places.map((at) => sent[at]);
    const bound = (Math.max(...line) - Math.min(...line)) / 504 + 1e-6;
    for (const at of places) worst = Math.max(worst, Math.abs(got[at] - sent[at]) / bound);
  }
  expect(worst).toBeLessThanOrEqual(1);
  expect(worst).toBeGreaterThan(0.5);
});

test('a comparison exports A, B and A − B', async ({ page, hub }) => {
  await page.goto(hub.url.replace('/#', '/?tab=compare&stepb=40&layer=3#'));
  await expect(page.getByRole('heading', { name: 'B, step 40: L3' })).toBeVisible();
  await idle(page);
  const { arrays, facts } = read(await save(page, 'npz'));
  const [a, b] = [120, 40].map((step) => Float32Array.from(tileMap(3, step)));
  expect(arrays.tiles_a.hex === hexOf(a)).toBe(true);
  expect(arrays.tiles_b.hex === hexOf(b)).toBe(true);
  const difference = Float64Array.from(a, (value, i) => value - b[i]);
  expect(arrays.tiles_difference.hex === hexOf(difference)).toBe(true);
  expect(facts.b).toBe('run shakespeare-demo (5f0c12ab34cd56ef), train, step 40');
});

test('CSV: a header that says what it is, and digits that give the number back', async ({
  page,
  hub,
}) => {
  await open(page, hub);
  const lines = readFileSync(await save(page, 'csv'), 'utf8').split('\n');
  for (const fact of ['run: shakespeare-demo', 'step: 120', 'point: HiddenStates', 'dtype: f32']) {
    expect(lines).toContain(`# ${fact}`);
  }
  expect(lines.some((line) => line.startsWith('# units: '))).toBe(true);
  const start = lines.findIndex((line) => line.startsWith('# tiles: as on the wire; float32'));
  expect(lines[start + 1].startsWith('tile\\position,0,1,2,')).toBe(true);
  const sent = tileMap(1, 120);
  for (let tile = 0; tile < 64; tile++) {
    const [label, ...cells] = lines[start + 2 + tile].split(',');
    expect(label).toBe(String(tile));
    const numbers = cells.map((cell) => Math.fround(Number(cell)));
    const line = sent.subarray(tile * kSequence, (tile + 1) * kSequence);
    expect(numbers).toEqual([...line].map(Math.fround));
  }
});

test('the curves are exported too, and the plan has only its picture', async ({ page, hub }) => {
  await page.goto(hub.url.replace('/#', '/?tab=overview#'));
  await expect(page.getByTestId('loss-readout')).toBeVisible();
  await expect.poll(() => page.evaluate(() => window.__tt?.app.series.all.length)).toBe(120);
  await idle(page);
  const { arrays, facts } = read(await save(page, 'npz'));
  const told = Array.from({ length: 120 }, (_, i) => stepFacts(i + 1));
  for (const name of ['loss', 'valid_loss', 'grad_norm', 'lr', 'tokens_per_second']) {
    expect(arrays[name], name).toMatchObject({ dtype: 'float64', shape: [120] });
    const values = Float64Array.from(told, (facts) => facts[name] ?? Number.NaN);
    expect(arrays[name].hex === hexOf(values), name).toBe(true);
  }
  expect(facts).toMatchObject({ steps: '1 to 120', texts: { loss: 'nats/byte, by step' } });
  await page.getByTestId('tab-plan').click();
  await page.getByTestId('export').click();
  await expect(page.getByTestId('export-npz')).toHaveAttribute('aria-disabled', 'true');
});

for (const colorScheme of ['dark', 'light'] as const) {
  test(`PNG: a picture with title, axes and legend, ${colorScheme}`, async ({ page, hub }) => {
    await page.emulateMedia({ colorScheme });
    await open(page, hub);
    const path = await save(page, 'png');
    await page.screenshot({ path: `test-results/export-page-${colorScheme}.png` });
    const picture = decodePng(readFileSync(path));
    // Every cell has its colour of the page; the picture is twice as fine, below a heading.
    const map = page.getByTestId('tile-map');
    const offset = await map.evaluate((canvas) => {
      const boxes = [...document.querySelectorAll('.maps section')].map((section) =>
        section.getBoundingClientRect(),
      );
      const box = canvas.getBoundingClientRect();
      const [left, top] = [boxes.map((each) => each.left), boxes.map((each) => each.top)];
      return { x: box.left - Math.min(...left), y: box.top - Math.min(...top) };
    });
    for (const [tile, token] of [
      [3, 7],
      [31, 150],
      [60, 250],
    ]) {
      const spot = await spotOf(map, tile, token, 64);
      const [x, y] = [12 + offset.x + spot.x, 60 + offset.y + spot.y].map((at) => 2 * at);
      expect(picture.at(x, y)).toBe((await pixels(map, spot)).at);
    }
    execFileSync('cp', [path, `test-results/export-maps-${colorScheme}.png`]);
    for (const tab of ['compare', 'text']) {
      await page.getByTestId(`tab-${tab}`).click();
      await idle(page);
      execFileSync('cp', [
        await save(page, 'png'),
        `test-results/export-${tab}-${colorScheme}.png`,
      ]);
    }
  });
}

test('the menu is used by keyboard', async ({ page, hub }) => {
  await open(page, hub);
  await page.getByTestId('export').focus();
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('export-png')).toBeFocused();
  await page.keyboard.press('ArrowDown');
  await expect(page.getByTestId('export-csv')).toBeFocused();
  await page.screenshot({ path: 'test-results/export-menu.png' });
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('export')).toBeFocused();
  await page.keyboard.press('Enter');
  const download = page.waitForEvent('download');
  await page.keyboard.press('Enter');
  expect((await download).suggestedFilename()).toMatch(/\.png$/);
  await hoverTile(page, 3, 3);
});
