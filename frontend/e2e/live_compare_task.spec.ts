import { expect, test } from '@playwright/test';
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Reader } from './live_reader.ts';
import { kSmallRun, startRun } from './live_support.ts';
import { idle, kNightly } from './support.ts';

// Task e of live_tasks.spec.ts. It has a run that nobody else changes: the default plan was in force at both steps.

const kPatience = { timeout: 60_000 };

let folder = '';
let run: ChildProcess | null = null;
let url = '';

test.beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'tensor-tracer-compare-')));
  writeFileSync(join(folder, 'text.txt'), 'Two steps of one prompt are compared. '.repeat(400));
  writeFileSync(join(folder, 'code.txt'), 'def f(x):\n');
  const flags = ['--train-iters', '1000000', '--monitor-prompts', 'code.txt'];
  ({ run, url } = await startRun(folder, 'run', [...kSmallRun, ...flags]));
});

test.afterAll(async () => {
  const ended = new Promise((resolve) => run?.once('exit', resolve));
  run?.kill('SIGUSR1');
  await ended;
  rmSync(folder, { recursive: true });
});

test('e: step 50 against 200 for a monitored prompt, in 3 clicks', kNightly, async ({ page }) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(url);
  await expect(page.getByTestId('tile-map')).toBeVisible(kPatience);
  const step = (): Promise<number> => page.evaluate(() => window.__tt?.app.newestStep ?? 0);
  await expect.poll(step, kPatience).toBeGreaterThan(200);
  const reader = new Reader(page);
  await reader.command('point hidden code', 'Point HiddenStates · code');
  await reader.click(page.getByTestId('tab-compare'));
  for (const [side, wanted] of [
    ['A', '200'],
    ['B', '50'],
  ] as const) {
    await reader.click(page.getByTestId(`step-${side}`));
    await page.keyboard.press('Control+a');
    await reader.type(wanted);
    await page.keyboard.press('Enter');
  }
  await expect(page.getByRole('heading', { name: /^A, step 200:/ }).first()).toBeVisible(kPatience);
  await expect(page.getByRole('heading', { name: /^B, step 50:/ }).first()).toBeVisible(kPatience);
  await idle(page);
  await page.screenshot({ path: 'test-results/task-e.png' });
  expect(reader.clicks).toBeLessThanOrEqual(3);
});
