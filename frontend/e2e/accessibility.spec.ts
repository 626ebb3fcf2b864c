import { expect } from '@playwright/test';
import { hoverTile, kSmoke, open, openPlan, seriousOf, test, watch } from './support.ts';

for (const colorScheme of ['dark', 'light'] as const) {
  test(`no serious finding of axe in ${colorScheme}`, kSmoke, async ({ page, hub }) => {
    await page.emulateMedia({ colorScheme });
    hub.setHolder({ session: 'v99', name: 'Ada' });
    await open(page, hub);
    await page.getByTestId('holder').click();
    expect(await seriousOf(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await page.getByTestId('export').click();
    await expect(page.getByTestId('export-npz')).toBeVisible();
    expect(await seriousOf(page)).toEqual([]);
  });
}

for (const colorScheme of ['dark', 'light'] as const) {
  test(`no serious finding of axe in the keyboard's sheet and where the token is missing, ${colorScheme}`, async ({
    page,
    hub,
  }) => {
    await page.emulateMedia({ colorScheme });
    await page.goto(`http://127.0.0.1:${hub.port}/`);
    await expect(page.getByRole('alertdialog')).toBeVisible();
    expect(await seriousOf(page)).toEqual([]);
    await open(page, hub);
    await page.keyboard.press('?');
    await expect(page.getByRole('dialog', { name: 'Keyboard' })).toBeVisible();
    expect(await seriousOf(page)).toEqual([]);
  });
}

for (const reducedMotion of ['no-preference', 'reduce'] as const) {
  test(`what moves by itself stands still where that is asked for: ${reducedMotion}`, async ({
    page,
    hub,
  }) => {
    await page.emulateMedia({ reducedMotion });
    await open(page, hub);
    hub.setPhase('starting');
    await expect(page.getByTestId('chip')).toHaveAttribute('data-word', 'starting');
    const moving = (): Promise<number> => page.evaluate(() => document.getAnimations().length);
    if (reducedMotion === 'reduce') expect(await moving()).toBe(0);
    else await expect.poll(moving).toBeGreaterThan(0);
  });
}

test('nothing is cut off at 1280×720, and all can be reached at 200 %', async ({ page, hub }) => {
  await open(page, hub);
  const overflow = (): Promise<number> =>
    page.evaluate(() => document.documentElement.scrollHeight - innerHeight);
  expect(await overflow()).toBe(0);
  await page.setViewportSize({ width: 640, height: 360 });
  await hoverTile(page, 60, 250);
  await expect(page.getByTestId('tip')).toBeInViewport();
  await openPlan(page);
  await page.getByTestId('apply').scrollIntoViewIfNeeded();
  await expect(page.getByTestId('apply')).toBeInViewport({ ratio: 1 });
});

test('keys scroll the region that has the focus, and leave the run alone', async ({
  page,
  hub,
}) => {
  watch(hub, { point: 'Logits', compressor: { kind: 'topk', k: 20 } });
  await page.setViewportSize({ width: 1280, height: 560 });
  await page.goto(hub.url.replace('/#', '/?tab=text&layer=2#'));
  const region = page.getByRole('region', { name: 'Predictions' });
  const top = (): Promise<number> => region.evaluate(({ scrollTop }) => scrollTop);
  await region.focus();
  await page.keyboard.press('ArrowDown');
  await expect.poll(top).toBeGreaterThan(0);
  const down = await top();
  await page.keyboard.press(' ');
  await expect.poll(top).toBeGreaterThan(down);
  // The page asks for the alarms by itself.
  const asked = new Set(hub.requests.map(({ method }) => method));
  expect([...asked].filter((method) => method !== 'alarms.list')).toEqual(['hello']);
});
