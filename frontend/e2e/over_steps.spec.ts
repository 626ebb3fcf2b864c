import { expect } from '@playwright/test';
import { kLayers } from './fake_data.ts';
import {
  advance,
  choose,
  digits,
  idle,
  kSmoke,
  numbersOf,
  open,
  pixels,
  spotOf,
  test,
  tipValue,
} from './support.ts';

// The summary of every layer over the steps.

test('over the steps: one number of each layer and step, and gaps', async ({ page, hub }) => {
  hub.firstKept = hub.step;
  await open(page, hub);
  await advance(page, hub, 5);
  hub.step += 3;
  await advance(page, hub);
  await choose(page, 'over steps');
  const map = page.getByTestId('over-map');
  const hover = async (layer: number, step: number): Promise<void> =>
    map.hover({ position: await spotOf(map, layer - 1, step - 120, kLayers, 10) });
  await hover(2, 123);
  const numbers = numbersOf(hub, 2, 123);
  const mean = numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
  expect(await tipValue(page)).toBeCloseTo(mean, 6);
  await expect(page.getByTestId('tip')).toContainText('123');
  await hover(2, 127);
  await expect(page.getByTestId('tip-value')).toHaveText('not captured');
  const gap = await spotOf(map, 1, 7, kLayers, 10);
  await page.mouse.move(5, 5);
  await idle(page);
  expect((await pixels(map, gap)).at).toBe('226,229,233');
  await choose(page, 'max |x|');
  await hover(4, 129);
  const largest = Math.max(...numbersOf(hub, 4, 129).map(Math.abs));
  expect(await tipValue(page)).toBe(digits(largest));
  await map.click({ position: await spotOf(map, 2, 3, kLayers, 10) });
  await expect(page.getByTestId('shown-step')).toHaveText('step 123');
  await expect(page.getByRole('heading', { name: 'Layer 3: tiles × tokens' })).toBeVisible();
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
