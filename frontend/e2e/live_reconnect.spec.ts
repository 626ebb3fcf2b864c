import { expect, type Page, test } from '@playwright/test';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { idle, pixels, kNightly } from './support.ts';

// UX-7 against a real run: its hub's process is killed, and the run's supervisor starts another.
// TT_RECORDING: a file in the run's directory, where the hub tells its process.

const kPatience = { timeout: 60_000 };
const kBackMs = 3000;

function hubProcess(): number {
  const file = join(dirname(process.env.TT_RECORDING ?? ''), 'hub.json');
  return (JSON.parse(readFileSync(file, 'utf8')) as { readonly pid: number }).pid;
}

/** Whether the hub answers, and when it first did. */
async function answersSince(origin: string): Promise<number | undefined> {
  try {
    const { status } = await fetch(`${origin}/healthz`);
    return status < 500 ? Date.now() : undefined;
  } catch {
    return undefined;
  }
}

async function shownStep(page: Page): Promise<number> {
  return Number((await page.getByTestId('shown-step').innerText()).replace(/\D/g, ''));
}

test(
  'a hub that is killed comes back, and the page goes on by itself',
  kNightly,
  async ({ page }) => {
    const url = new URL(process.env.TT_PAGE_URL ?? '');
    await page.goto(url.href);
    await expect(page.getByTestId('tile-map')).toBeVisible(kPatience);
    const first = await shownStep(page);
    await expect.poll(() => shownStep(page), kPatience).toBeGreaterThan(first + 2);
    await page.evaluate(() => document.body.setAttribute('data-mark', 'not reloaded'));
    const chip = page.getByTestId('chip');

    const killed = hubProcess();
    const held = await shownStep(page);
    process.kill(killed, 'SIGKILL');
    await expect(chip).toHaveAttribute('data-word', 'reconnecting');
    await expect(page.getByTestId('tile-map')).toBeVisible();

    let back: number | undefined;
    await expect
      .poll(
        async () => (back = hubProcess() === killed ? undefined : await answersSince(url.origin)),
        {
          ...kPatience,
          intervals: [50],
        },
      )
      .toBeDefined();
    await expect(chip).toHaveText(/live|lagging/, kPatience);
    expect(Date.now() - (back ?? 0)).toBeLessThan(kBackMs);

    await expect.poll(() => shownStep(page), kPatience).toBeGreaterThan(held + 3);
    await idle(page);
    expect((await pixels(page.getByTestId('tile-map'))).colors).toBeGreaterThan(20);
    await expect(page.locator('body')).toHaveAttribute('data-mark', 'not reloaded');
    const steps = await page.evaluate(
      () => window.__tt?.app.series.all.map(({ step }) => step) ?? [],
    );
    expect(new Set(steps).size).toBe(steps.length);
    expect(Math.max(...steps)).toBeGreaterThan(held + 3);
    const problems = await page.evaluate(() => window.__tt?.app.traffic?.problems);
    expect(problems).toBe(0);
  },
);
