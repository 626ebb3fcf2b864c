import { expect } from '@playwright/test';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { advance, kTokens, openAfter, test, visit } from './real_run.ts';
import {
  addressOf,
  hoverTile,
  kDist,
  kPrograms,
  kSmoke,
  open,
  openPlan,
  seriousOf,
} from './support.ts';

for (const colorScheme of ['dark', 'light'] as const) {
  test(`no serious finding of axe in ${colorScheme}`, kSmoke, async ({ page, run }) => {
    await page.emulateMedia({ colorScheme });
    await run.stepAs('Ada');
    await open(page, run);
    await page.getByTestId('holder').click();
    await expect(page.getByRole('button', { name: 'Take over from Ada' })).toBeVisible();
    expect(await seriousOf(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await page.getByTestId('export').click();
    await expect(page.getByTestId('export-npz')).toBeVisible();
    expect(await seriousOf(page)).toEqual([]);
  });
}

test.describe('with a token', () => {
  test.use({ flags: ['--tensor-tracer-auth', 'token'] });

  for (const colorScheme of ['dark', 'light'] as const) {
    test(`no serious finding of axe in the keyboard's sheet and where the token is missing, ${colorScheme}`, async ({
      page,
      run,
    }) => {
      await page.emulateMedia({ colorScheme });
      await run.stepAs('Ada');
      await page.goto(run.url);
      await expect(page.getByRole('alertdialog')).toBeVisible();
      expect(await seriousOf(page)).toEqual([]);
      await open(page, { url: run.signIn() });
      await page.keyboard.press('?');
      await expect(page.getByRole('dialog', { name: 'Keyboard' })).toBeVisible();
      expect(await seriousOf(page)).toEqual([]);
    });
  }
});

/** Calls `use` with the address of a hub whose trainer has not come yet. */
async function withLonelyHub(use: (url: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'tt-hub-'));
  const flags = ['--run-dir', folder, '--port', '0', '--auth', 'none', '--page-dir', kDist];
  const hub = spawn(join(kPrograms, 'tensor-tracer-hub'), ['serve', ...flags]);
  const ended = once(hub, 'exit');
  try {
    await use(await addressOf(hub));
  } finally {
    hub.kill('SIGTERM');
    await ended;
    rmSync(folder, { recursive: true });
  }
}

for (const reducedMotion of ['no-preference', 'reduce'] as const) {
  test(`what moves by itself stands still where that is asked for: ${reducedMotion}`, async ({
    page,
  }) => {
    await page.emulateMedia({ reducedMotion });
    await withLonelyHub(async (url) => {
      await page.goto(url);
      await expect(page.getByTestId('chip')).toHaveAttribute('data-word', 'starting');
      const moving = (): Promise<number> => page.evaluate(() => document.getAnimations().length);
      if (reducedMotion === 'reduce') expect(await moving()).toBe(0);
      else await expect.poll(moving).toBeGreaterThan(0);
    });
  });
}

test('nothing is cut off at 1280×720, and all can be reached at 200 %', async ({ page, run }) => {
  await openAfter(page, run, 1);
  const overflow = (): Promise<number> =>
    page.evaluate(() => document.documentElement.scrollHeight - innerHeight);
  expect(await overflow()).toBe(0);
  await page.setViewportSize({ width: 640, height: 360 });
  await hoverTile(page, 7, 31, 8, kTokens);
  await expect(page.getByTestId('tip')).toBeInViewport();
  await openPlan(page);
  await page.getByTestId('apply').scrollIntoViewIfNeeded();
  await expect(page.getByTestId('apply')).toBeInViewport({ ratio: 1 });
});

test('keys scroll the region that has the focus, and leave the run alone', async ({
  page,
  run,
}) => {
  const logits = { point: 'Logits', compressor: { kind: 'topk', k: 20 } };
  await run.setPlan(logits, { point: 'InputTokens' });
  await page.setViewportSize({ width: 1280, height: 560 });
  await visit(page, run, 'tab=text&layer=2', 'start');
  await advance(page);
  const region = page.getByRole('region', { name: 'Predictions' });
  const top = (): Promise<number> => region.evaluate(({ scrollTop }) => scrollTop);
  await region.focus();
  await page.keyboard.press('ArrowDown');
  await expect.poll(top).toBeGreaterThan(0);
  const down = await top();
  await page.keyboard.press(' ');
  await expect.poll(top).toBeGreaterThan(down);
  // The page holds control of the paused run, so elsewhere the space bar would let it go on.
  await advance(page);
  await expect
    .poll(() => run.askedByPage())
    .toEqual(['control.claim', 'control.step', 'control.step']);
  await expect(page.getByTestId('chip')).toHaveText('paused after step 2');
});
