import { expect, mergeTests } from '@playwright/test';
import { kForgetful, kLostStep, openWithLostStep } from './faults.ts';
import { openAfter, test as withRun } from './real_run.ts';
import { kLayers, test as withRecorded } from './recorded.ts';
import {
  advance,
  choose,
  digits,
  idle,
  kSmoke,
  open,
  pixels,
  spotOf,
  tipValue,
} from './support.ts';

// The summary of every layer over the steps.

const test = mergeTests(withRecorded, withRun);

const kSteps = 34;

test('over the steps: one number of each layer and step', async ({ page, recorded }) => {
  await open(page, recorded);
  await advance(page, recorded, 4);
  await choose(page, 'over steps');
  const map = page.getByTestId('over-map');
  await expect(page.getByLabel(`of ${kLayers} layers at ${kSteps} steps`)).toBeVisible();
  const hover = async (layer: number, step: number): Promise<void> =>
    map.hover({ position: await spotOf(map, layer - 1, step - 1, kLayers, kSteps) });
  await hover(2, 33);
  const numbers = recorded.expected.values('tiles', 2, 33);
  const mean = numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
  expect(await tipValue(page)).toBeCloseTo(mean, 6);
  await expect(page.getByTestId('tip')).toContainText('33');
  await choose(page, 'max |x|');
  await hover(4, 34);
  const largest = Math.max(...recorded.expected.values('tiles', 4, 34).map(Math.abs));
  expect(await tipValue(page)).toBe(digits(largest));
  await map.click({ position: await spotOf(map, 2, 32, kLayers, kSteps) });
  await expect(page.getByTestId('shown-step')).toHaveText('step 33');
  await expect(page.getByRole('heading', { name: 'Layer 3: tiles × tokens' })).toBeVisible();
});

test.describe('a run that keeps no records', () => {
  test.use({ flags: kForgetful });

  test('over the steps: a step that nobody kept is a gap', async ({ page, run }) => {
    await openWithLostStep(page, run);
    await choose(page, 'over steps');
    // Layer 2 at the steps 2 to 6.
    await expect(page.getByLabel('of 1 layers at 5 steps')).toBeVisible();
    const map = page.getByTestId('over-map');
    const gap = await spotOf(map, 0, kLostStep - 2, 1, 5);
    await map.hover({ position: gap });
    await expect(page.getByTestId('tip-value')).toHaveText('not captured');
    await page.mouse.move(5, 5);
    await idle(page);
    expect((await pixels(map, gap)).at).toBe('226,229,233');
  });
});

test.describe('a run whose learning rate rises', () => {
  test.use({ flags: ['--lr', '0.01', '--lr-warmup-iters', '100'] });

  test('over the steps: what happened is marked at its step', kSmoke, async ({ page, run }) => {
    const alarm = { name: 'fast', scalar: 'lr', test: 'above', value: 0.00025 };
    await run.remote.control('alarms.set', alarm);
    await openAfter(page, run, 5);
    await choose(page, 'over steps');
    const map = page.getByTestId('over-map');
    const spot = await spotOf(map, 0, 2, kLayers, 5);
    const box = await map.boundingBox();
    const edge = { x: Math.round(44 + (2 / 5) * ((box?.width ?? 0) - 44)) + 0.5, y: spot.y };
    await page.mouse.move(5, 5);
    await idle(page);
    const color = await page.evaluate(() => {
      const probe = document.createElement('i');
      probe.style.color = 'var(--mark-alarm)';
      document.body.append(probe);
      const words = getComputedStyle(probe).color.match(/\d+/g)?.join(',');
      probe.remove();
      return words;
    });
    await expect.poll(async () => (await pixels(map, edge)).at).toBe(color);
    await map.hover({ position: spot });
    // The rate of step n is n / 100 of the highest.
    await expect(page.getByTestId('tip')).toContainText(
      'step 3: alarm fast: lr is above 0.00025 at step 3: 0.0003',
    );
    await map.hover({ position: await spotOf(map, 0, 3, kLayers, 5) });
    await expect(page.getByTestId('tip')).not.toContainText('alarm');
    await page.mouse.move(5, 5);
    await page.getByTestId('events').click();
    await idle(page);
    expect((await pixels(map, edge)).at).not.toBe(color);
  });
});
