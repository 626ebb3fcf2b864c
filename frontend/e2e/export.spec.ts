import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect } from '@playwright/test';
import { hexOf, hexOfAxis, read, save } from './export_support.ts';
import { decodePng } from './png.ts';
import {
  type Expected,
  kBroken,
  kHeads,
  kLayers,
  kQueries,
  kTiles,
  kTokens,
  test,
} from './recorded.ts';
import { hoverTile, idle, kSmoke, open, pixels, spotOf } from './support.ts';

// Files that the page saves, read back by other programs: numpy for NPZ, a decoder for PNG.

/** Tiles down, tokens across. */
function tileMap(numbers: Float64Array): Float32Array {
  return new Float32Array(kTiles * kTokens).map(
    (_, i) => numbers[(i % kTokens) * kTiles + Math.floor(i / kTokens)],
  );
}

function tokensOf(expected: Expected, step: number): Int32Array {
  return Int32Array.from({ length: kTokens }, (_, at) => expected.token(step, at));
}

test.describe('NPZ', () => {
  test.use({ firstStep: kBroken.step });

  test('maps: numpy reads the numbers of the recording, NaN too', async ({ page, recorded }) => {
    const { expected } = recorded;
    await open(page, recorded);
    await page.getByTestId('layer').selectOption('2');
    await idle(page);
    const path = await save(page, 'npz');
    expect(path).toContain('tensor-tracer-recorded-HiddenStates-layer2-step40.npz');
    const { arrays, facts } = read(path);
    expect(arrays.tiles).toMatchObject({ dtype: 'float32', shape: [kTiles, kTokens] });
    // Of NaN the bits may differ: the numbers must not.
    const got = new Float32Array(Uint8Array.from(Buffer.from(arrays.tiles.hex, 'hex')).buffer);
    const sent = tileMap(expected.values('tiles', 2, kBroken.step));
    expect([...got]).toEqual([...sent]);
    expect(sent[kBroken.nan]).toBeNaN();
    expect(arrays.layers.shape).toEqual([kLayers, kTokens]);
    expect(arrays.tokens.hex).toBe(hexOf(tokensOf(expected, kBroken.step)));
    expect(arrays.axis_layer.hex).toBe(hexOfAxis([1, 2, 3, 4]));
    expect(facts).toMatchObject({
      run: expected.facts.name,
      run_id: expected.facts.id,
      step: kBroken.step,
      point: 'HiddenStates',
      layer: 2,
      dtype: 'f32',
      bound: 'equal to the numbers on the wire',
      axes: { tiles: ['tile', 'position'], layers: ['layer', 'position'] },
    });
  });
});

test('NPZ of tiles, of attention, and of the largest keeps every bit', async ({
  page,
  recorded,
}) => {
  const { expected } = recorded;
  await open(page, recorded);
  const single = read(await save(page, 'npz')).arrays;
  expect(single.tiles.hex === hexOf(tileMap(expected.values('tiles', 1, 30)))).toBe(true);
  await page.getByTestId('point').selectOption('RawAttentionScore');
  await page.getByTestId('head').selectOption('2');
  await expect(page.getByRole('heading', { name: 'head 2' })).toBeVisible();
  await idle(page);
  const attention = read(await save(page, 'npz'));
  const scores = Float32Array.from(expected.values('attention', 1, 30));
  const size = kQueries * kTokens;
  for (let head = 0; head < kHeads; head++) {
    const array = attention.arrays[`attention_head_${head}`];
    expect(array.shape).toEqual([kQueries, kTokens]);
    const own = scores.slice(head * size, (head + 1) * size);
    expect(array.hex === hexOf(own), `head ${head}`).toBe(true);
  }
  expect(attention.facts).toMatchObject({ heads: kHeads, units: 'attention probability' });
  await page.getByTestId('tab-text').click();
  await expect(page.getByTestId('predictions')).toBeVisible();
  await idle(page);
  const best = read(await save(page, 'npz')).arrays;
  const ids = new Int32Array(5 * kTokens).map(
    (_, i) => expected.best(30, i % kTokens, Math.floor(i / kTokens)).id,
  );
  expect(best.ids.hex).toBe(hexOf(ids));
  const ranks = new Int32Array(kTokens).map((_, token) => rankOf(expected, token));
  expect(best.next_rank.hex).toBe(hexOf(ranks));
});

/** The place of the true next token among the best of step 30: from 1, 0 if it is not there. */
function rankOf(expected: Expected, token: number): number {
  const next = expected.softmax(30, token)[3];
  return 1 + [0, 1, 2, 3, 4].findIndex((rank) => expected.best(30, token, rank).id === next);
}

test('u8 is exported with its bound', kSmoke, async ({ page, recorded }) => {
  await open(page, recorded);
  await page.getByTestId('point').selectOption('HiddenStates · gradient');
  await idle(page);
  const { arrays, facts } = read(await save(page, 'npz'));
  expect(facts.bound).toContain('(largest - smallest) / 504');
  const got = new Float32Array(Uint8Array.from(Buffer.from(arrays.tiles.hex, 'hex')).buffer);
  const sent = tileMap(recorded.expected.values('gradient', 1, 30));
  expect(sent.some((each) => each !== 0)).toBe(true);
  const scale = Math.max(...sent.map(Math.abs));
  got.forEach((each, i) => expect(Math.abs(each - sent[i])).toBeLessThan(1e-6 * scale));
});

test('a comparison exports A, B and A − B', async ({ page, recorded }) => {
  const { expected } = recorded;
  await page.goto(recorded.at('tab=compare&stepb=10&layer=3'));
  await expect(page.getByRole('heading', { name: 'B, step 10: L3' })).toBeVisible();
  await idle(page);
  const { arrays, facts } = read(await save(page, 'npz'));
  const [a, b] = [30, 10].map((step) => tileMap(expected.values('tiles', 3, step)));
  expect(arrays.tiles_a.hex === hexOf(a)).toBe(true);
  expect(arrays.tiles_b.hex === hexOf(b)).toBe(true);
  const difference = Float64Array.from(a, (value, i) => value - b[i]);
  expect(arrays.tiles_difference.hex === hexOf(difference)).toBe(true);
  expect(facts.b).toBe(`run recorded (${expected.facts.id}), train, step 10`);
});

test('CSV: a header that says what it is, and digits that give the number back', async ({
  page,
  recorded,
}) => {
  await open(page, recorded);
  const lines = readFileSync(await save(page, 'csv'), 'utf8').split('\n');
  for (const fact of ['run: recorded', 'step: 30', 'point: HiddenStates', 'dtype: f32']) {
    expect(lines).toContain(`# ${fact}`);
  }
  expect(lines.some((line) => line.startsWith('# units: '))).toBe(true);
  const start = lines.findIndex((line) => line.startsWith('# tiles: as on the wire; float32'));
  expect(lines[start + 1].startsWith('tile\\position,0,1,2,')).toBe(true);
  const sent = tileMap(recorded.expected.values('tiles', 1, 30));
  for (let tile = 0; tile < kTiles; tile++) {
    const [label, ...cells] = lines[start + 2 + tile].split(',');
    expect(label).toBe(String(tile));
    const numbers = cells.map((cell) => Math.fround(Number(cell)));
    expect(numbers).toEqual([...sent.subarray(tile * kTokens, (tile + 1) * kTokens)]);
  }
});

test.describe('the last step', () => {
  test.use({ firstStep: kBroken.step });

  test('the curves are exported too, and the plan has only its picture', async ({
    page,
    recorded,
  }) => {
    await page.goto(recorded.at('tab=overview'));
    await expect(page.getByTestId('loss-readout')).toBeVisible();
    await expect.poll(() => page.evaluate(() => window.__tt?.app.series.all.length)).toBe(40);
    await idle(page);
    const { arrays, facts } = read(await save(page, 'npz'));
    for (const name of ['loss', 'valid_loss', 'grad_norm', 'lr', 'tokens_per_second']) {
      expect(arrays[name], name).toMatchObject({ dtype: 'float64', shape: [40] });
      const bytes = Uint8Array.from(Buffer.from(arrays[name].hex, 'hex'));
      expect([...new Float64Array(bytes.buffer)], name).toEqual([
        ...recorded.expected.scalar(name),
      ]);
    }
    expect(facts).toMatchObject({ steps: '1 to 40', texts: { loss: 'nats/byte, by step' } });
    await page.getByTestId('tab-plan').click();
    await page.getByTestId('export').click();
    await expect(page.getByTestId('export-npz')).toHaveAttribute('aria-disabled', 'true');
  });
});

for (const colorScheme of ['dark', 'light'] as const) {
  test(`PNG: a picture with title, axes and legend, ${colorScheme}`, async ({ page, recorded }) => {
    await page.emulateMedia({ colorScheme });
    await open(page, recorded);
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
      [0, 7],
      [4, 15],
      [7, 30],
    ]) {
      const spot = await spotOf(map, tile, token, kTiles, kTokens);
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

test('the menu is used by keyboard', async ({ page, recorded }) => {
  await open(page, recorded);
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
  await hoverTile(page, 3, 3, kTiles, kTokens);
});
