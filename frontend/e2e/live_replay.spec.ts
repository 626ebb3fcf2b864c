import { expect, type Page, test } from '@playwright/test';
import { spawn } from 'node:child_process';
import { addressOf, idle } from './support.ts';

// What a run showed and what its recording shows are the same pixels. TT_RECORDING: the file that
// the run of TT_PAGE_URL writes; TT_PROGRAM: the program that replays it.

const kPatience = { timeout: 60_000 };
const kMaps = ['layer-map', 'tile-map'] as const;

/** The pictures of the maps of a step that stands still. */
async function pictures(page: Page): Promise<Buffer[]> {
  await page.mouse.move(0, 0);
  await idle(page);
  const taken: Buffer[] = [];
  for (const map of kMaps) taken.push(await page.getByTestId(map).screenshot());
  return taken;
}

async function shownStep(page: Page): Promise<number> {
  return Number((await page.getByTestId('shown-step').innerText()).replace(/\D/g, ''));
}

test('a recording shows the pixels that the run showed', async ({ page, context }) => {
  await page.goto(process.env.TT_PAGE_URL ?? '');
  await expect(page.getByTestId('tile-map')).toBeVisible(kPatience);
  await expect.poll(() => shownStep(page), kPatience).toBeGreaterThan(2);
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveAttribute('data-word', 'paused', kPatience);
  // The offer to undo lies over the map.
  await expect(page.getByTestId('toast')).toHaveCount(0, kPatience);
  await idle(page);
  const held = await shownStep(page);
  const live = await pictures(page);
  const line = ['replay', process.env.TT_RECORDING ?? '', '--port', '0', '--auth', 'none'];
  const replay = spawn(process.env.TT_PROGRAM ?? '', [...line, '--paused']);
  try {
    const other = await context.newPage();
    await other.goto(await addressOf(replay));
    await expect(other.getByTestId('chip')).toHaveText('replay, paused', kPatience);
    await other.getByTestId('seek').fill(String(held));
    await expect.poll(() => shownStep(other), kPatience).toBe(held);
    const shown = await pictures(other);
    kMaps.forEach((map, index) => {
      expect(shown[index].equals(live[index]), `${map} of step ${held}`).toBe(true);
    });
    await other.getByTestId('seek').fill(String(held - 1));
    await expect.poll(() => shownStep(other), kPatience).toBe(held - 1);
    expect((await pictures(other))[1].equals(live[1]), 'another step has other pixels').toBe(false);
  } finally {
    replay.kill('SIGTERM');
  }
  await page.getByTestId('pause').click();
});
