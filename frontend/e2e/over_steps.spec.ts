import { expect } from '@playwright/test';
import { kLayers, test } from './recorded.ts';
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

test('over the steps: a step that nobody kept is a gap', async ({ page, hub }) => {
  hub.firstKept = hub.step;
  await open(page, hub);
  await advance(page, hub, 5);
  hub.step += 3;
  await advance(page, hub);
  await choose(page, 'over steps');
  const map = page.getByTestId('over-map');
  const gap = await spotOf(map, 1, 7, kLayers, 10);
  await map.hover({ position: gap });
  await expect(page.getByTestId('tip-value')).toHaveText('not captured');
  await page.mouse.move(5, 5);
  await idle(page);
  expect((await pixels(map, gap)).at).toBe('226,229,233');
});

test('over the steps: what happened is marked at its step', kSmoke, async ({ page, hub }) => {
  hub.firstKept = hub.step;
  hub.trail.add('log', 122, { level: 'warning', message: 'a rank is slow' });
  await open(page, hub);
  await advance(page, hub, 4);
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
  await expect(page.getByTestId('tip')).toContainText('step 122: a rank is slow');
  await map.hover({ position: await spotOf(map, 0, 3, kLayers, 5) });
  await expect(page.getByTestId('tip')).not.toContainText('slow');
  await page.mouse.move(5, 5);
  await page.getByTestId('events').click();
  await idle(page);
  expect((await pixels(map, edge)).at).not.toBe(color);
});
