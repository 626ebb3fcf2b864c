import { expect, type Locator, type Page, test } from '@playwright/test';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { tokenOfText, tokenText } from '../src/ui/maps/token_text.ts';
import { preview, ready } from './interventions_support.ts';
import { torchrun, whileTraining } from './live_attached.ts';
import { complaintsOf, pauseTheOtherRun } from './live_support.ts';
import { hoverTile, idle, kNightly, pixels, spotOf, tipValue } from './support.ts';

// The page of an attached run: a Llama of Transformers on two tensor-parallel ranks, live_attached.py. What the page
// shows is what PyTorch's own hooks saw in the script.

const kPatience = { timeout: 120_000 };
const kLayers = 3;
const kHidden = 64;
const kTokens = 48;

interface Seen {
  readonly step: number;
  readonly loss: number;
  /** [layer][token][feature] */
  readonly hidden: readonly (readonly (readonly number[])[])[];
  /** [token][vocabulary] */
  readonly logits: readonly (readonly number[])[];
  readonly tokens: readonly number[];
}

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

async function shownStep(page: Page): Promise<number> {
  return Number((await page.getByTestId('shown-step').innerText()).replace(/\D/g, ''));
}

async function picture(page: Page, name: string): Promise<void> {
  await page.mouse.move(0, 0);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await idle(page);
    await page.screenshot({ path: test.info().outputPath(`${name}-${colorScheme}.png`) });
  }
}

async function showPoint(page: Page, label: string, testid: string): Promise<void> {
  await page.getByTestId('point').selectOption({ label });
  await expect(page.getByTestId(testid)).toBeVisible(kPatience);
  await idle(page);
}

/** The first number of a text. */
async function numberIn(locator: Locator, pattern = /(-?\d[\d.]*(?:e-?\d+)?)/): Promise<number> {
  return Number(pattern.exec((await locator.innerText()).replace(/−/g, '-'))?.[1]);
}

async function checkMaps(page: Page, { hidden }: Seen): Promise<void> {
  await showPoint(page, 'HiddenStates', 'tile-map');
  const layers = page.getByTestId('layer').locator('option');
  await expect(layers).toHaveText([/1/, /2/, /3/]);
  for (const layer of [1, kLayers]) {
    await page.getByTestId('layer').selectOption(String(layer));
    await idle(page);
    for (const [tile, token] of [
      [0, 0],
      [17, 31],
      [kHidden - 1, kTokens - 1],
    ]) {
      await hoverTile(page, tile, token, kHidden, kTokens);
      const exact = hidden[layer - 1][token][tile];
      expect(await tipValue(page)).toBe(Number(Math.fround(exact).toPrecision(7)));
    }
  }
  await picture(page, 'map');
  await page.getByRole('button', { name: 'all layers', exact: true }).click();
  await expect(page.getByTestId('layer-maps').getByRole('button')).toHaveCount(kLayers);
  await picture(page, 'all-layers');
  await page.getByRole('button', { name: 'one layer', exact: true }).click();
}

async function checkStatistics(page: Page, { step, hidden }: Seen): Promise<void> {
  await showPoint(page, 'HiddenStates · stats', 'stats-table');
  await expect(page.getByTestId('stats-table').locator('tbody th')).toHaveText(
    hidden.map((_, at) => `L${at + 1}`),
  );
  const history = await page.evaluate(() => window.__tt?.app.frame?.history);
  expect(history?.steps.at(-1)).toBe(step);
  for (const [at, layer] of hidden.entries()) {
    const rms = Math.sqrt(mean(layer.flat().map((value) => value * value)));
    expect(Math.abs((history?.lines.rms[at].at(-1) ?? NaN) / rms - 1)).toBeLessThan(1e-5);
  }
  await picture(page, 'statistics');
}

async function checkProjection(page: Page, { step, hidden }: Seen): Promise<void> {
  await showPoint(page, 'HiddenStates · projection', 'projection-map');
  await page.getByRole('button', { name: 'mean', exact: true }).click();
  const history = await page.evaluate(() => window.__tt?.app.frame?.history);
  expect(history?.steps.length).toBeGreaterThan(5);
  expect(history?.steps.at(-1)).toBe(step);
  for (const [at, layer] of hidden.entries()) {
    const row = Array.from({ length: kHidden }, (_, i) => Math.sin((at + 1) * kHidden + i));
    const length = Math.hypot(...row);
    const along = layer.map((of) => of.reduce((sum, x, i) => sum + x * row[i], 0) / length);
    expect(history?.lines.mean[at].at(-1)).toBeCloseTo(mean(along), 4);
  }
  await picture(page, 'projection');
}

async function checkAttention(page: Page, { step, tokens }: Seen): Promise<void> {
  await showPoint(page, 'RawAttentionScore', 'head-maps');
  await page.getByTestId('layer').selectOption('2');
  await page.getByTestId('head-maps').getByRole('button').nth(1).click();
  await expect(page.getByRole('heading', { name: 'Layer 2, head 1' })).toBeVisible();
  await idle(page);
  const map = page.getByTestId('attention-map');
  expect((await pixels(map)).colors).toBeGreaterThan(20);
  let sum = 0;
  for (let key = 0; key <= 5; key++) {
    await map.hover({ position: await spotOf(map, 5, key, kTokens, kTokens) });
    sum += await tipValue(page);
  }
  expect(sum).toBeCloseTo(1, 5);
  const title = `RawAttentionScore, Layer 2, head 1 at step ${step}: 48 queries by 48 keys`;
  await expect(page.getByRole('application', { name: title })).toBeVisible();
  await expect(page.getByText("attention probability ÷ the row's largest").first()).toBeVisible();
  const text = await page.getByTestId('query-text').locator('span').allTextContents();
  expect(text).toEqual(tokens.map((id) => tokenOfText(id, 'byte')));
  await picture(page, 'attention');
}

async function checkLens(page: Page, { hidden, logits, tokens }: Seen): Promise<void> {
  await showPoint(page, 'LogitLens', 'lens-grid');
  // The newest tokens are in view.
  for (const token of [kTokens - 2, kTokens - 9]) {
    const best = logits[token].indexOf(Math.max(...logits[token]));
    const cell = page.locator(`#lens-${hidden.length - 1}-${token}`);
    await expect(cell).toHaveText(tokenText(best, 'byte'), kPatience);
    await cell.click();
    const total = Math.log(logits[token].reduce((sum, score) => sum + Math.exp(score), 0));
    const loss = total - logits[token][tokens[token + 1]];
    const told = page.getByTestId('lens-loss').first();
    await expect.poll(() => numberIn(told), kPatience).toBeCloseTo(loss, 2);
  }
  await picture(page, 'lens');
}

async function checkText(page: Page, { tokens }: Seen): Promise<void> {
  await page.getByTestId('tab-text').click();
  await expect(page.getByTestId('tokens').getByRole('option')).toHaveCount(tokens.length);
  await expect(page.getByTestId('predictions')).toBeVisible();
  await picture(page, 'text');
}

async function checkOverview(page: Page, { loss }: Seen): Promise<void> {
  await page.getByTestId('tab-overview').click();
  await expect(page.getByTestId('overview')).toContainText('attached');
  expect(await numberIn(page.getByTestId('loss'))).toBeCloseTo(loss, 2);
  await expect(page.locator('.uplot')).toHaveCount(2);
  await expect(page.getByTestId('not-reported')).toHaveText(
    'Not reported by the run: grad norm, speed.',
  );
  await picture(page, 'overview');
}

async function lookAround(page: Page): Promise<void> {
  const show = async (tab: string, shown: string): Promise<void> => {
    await page.getByTestId(`tab-${tab}`).click();
    await expect(page.getByTestId(shown)).toBeVisible(kPatience);
  };
  await show('model', 'model');
  await expect(page.getByTestId('model')).toContainText('RMS of HiddenStates');
  await picture(page, 'model');
  await show('plan', 'plan-list');
  await page.getByTestId('plan-presets').getByText('Statistics of everything').click();
  await expect(page.getByTestId('plan-bytes')).not.toHaveText('–', kPatience);
  await page.getByTestId('plan-untraced').locator('summary').click();
  await expect(page.getByTestId('plan-untraced').locator('dt, dd')).toHaveText([
    'model.rotary_emb.output',
    /its shape \[1, 48, 16\] is not \[batch, sequence, features\]/,
  ]);
  await picture(page, 'plan');
  await show('compare', 'compare-note');
  await picture(page, 'compare');
}

/** A typed prompt runs between two steps. */
async function checkPrompt(page: Page): Promise<void> {
  await page.getByTestId('tab-prompts').click();
  await page.getByTestId('prompt').fill('def f(');
  await page.getByTestId('run-prompt').click();
  await expect(page.getByTestId('prompt-facts')).toContainText('6 tokens', kPatience);
  await expect(page.getByTestId('tokens').getByRole('option')).toHaveCount(6, kPatience);
  await picture(page, 'prompts');
}

/** A preview runs the prompts, because the tracer has no batches: no losses, but predictions and maps. */
async function checkPreview(page: Page): Promise<void> {
  await page.getByTestId('tab-interventions').click();
  await ready(page, 'layers[2].output = 2 * layers[2].output', 'louder');
  await preview(page);
  const losses = page.getByRole('table', { name: 'Loss without and with the program' });
  await expect(losses).toHaveCount(0);
  await expect(page.getByTestId('preview-text').locator('option')).toHaveText(['prompts: def f(']);
  await expect(page.getByTestId('preview-tokens').getByRole('option')).toHaveCount(6);
  const writes = page.getByRole('table', { name: 'What each write changes' });
  const written = ['layers[2].output', '6', /^\d/, /^\d/, '100 %'];
  await expect(writes.locator('tbody').locator('th, td')).toHaveText(written);
  const maps = page.getByTestId('before-after');
  await expect(maps).toContainText('HiddenStates of the first prompt of prompts');
  await expect(page.getByRole('heading', { name: 'L3, on − off' })).toBeVisible();
  await picture(page, 'interventions');
}

/** The run stands between two steps of the script: what the script and the page have is the same step. */
async function checkHeld(page: Page, seen: () => Seen): Promise<Seen> {
  await expect(page.getByTestId('chip')).toHaveAttribute('data-word', 'paused', kPatience);
  await idle(page);
  const held = seen();
  await page.waitForTimeout(2000);
  expect(seen().step).toBe(held.step);
  await expect(page.getByTestId('shown-step')).toHaveText(`step ${held.step}`);
  return held;
}

async function checkControl(page: Page, held: number, seen: () => Seen): Promise<void> {
  await page.getByTestId('tab-tensors').click();
  for (const next of [held + 1, held + 2]) {
    await page.getByTestId('step-once').click();
    await expect.poll(() => seen().step, kPatience).toBe(next);
    expect((await checkHeld(page, seen)).step).toBe(next);
  }
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveText(/live|lagging/, kPatience);
  await expect.poll(() => seen().step, kPatience).toBeGreaterThan(held + 6);
  await expect.poll(() => shownStep(page), kPatience).toBeGreaterThan(held + 6);
}

test(
  'the page shows and holds an attached run as one of our own',
  kNightly,
  async ({ page, context }) => {
    test.setTimeout(600_000);
    await pauseTheOtherRun(await context.newPage());
    await page.setViewportSize({ width: 1440, height: 900 });
    const complaints = complaintsOf(page);
    const folder = test.info().outputPath('training');
    const script = fileURLToPath(new URL('live_attached.py', import.meta.url));
    await whileTraining(torchrun(script, folder), `${folder}/run`, async (url) => {
      const seen = (): Seen => JSON.parse(readFileSync(`${folder}/seen.json`, 'utf8')) as Seen;
      await page.bringToFront();
      await page.goto(url);
      await expect.poll(() => shownStep(page), kPatience).toBeGreaterThan(20);
      await page.getByTestId('pause').click();
      const held = await checkHeld(page, seen);
      await checkMaps(page, held);
      await checkStatistics(page, held);
      await checkProjection(page, held);
      await checkAttention(page, held);
      await checkLens(page, held);
      await checkText(page, held);
      await checkOverview(page, held);
      await lookAround(page);
      await checkPrompt(page);
      await checkPreview(page);
      await checkControl(page, held.step, seen);
    });
    expect(complaints).toEqual([]);
  },
);
