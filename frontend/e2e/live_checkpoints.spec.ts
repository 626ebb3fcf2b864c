import { expect, type Page, test } from '@playwright/test';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { kSmallRun, pageOf, startRun } from './live_support.ts';
import { idle, kNightly } from './support.ts';

// A checkpoint from the page, and the run that resumes by the command that the page shows. TT_PROGRAM: the program
// that trains. These runs are small and have their own folder.

const kPatience = { timeout: 60_000 };
const kProgram = process.env.TT_PROGRAM ?? '';

let folder = '';
const kStarted: ChildProcess[] = [];

async function newestStep(page: Page): Promise<number> {
  return (await page.evaluate(() => window.__tt?.app.newestStep)) ?? 0;
}

async function endRun(run: ChildProcess): Promise<void> {
  if (run.exitCode !== null || run.signalCode !== null) return;
  const ended = once(run, 'exit');
  run.kill('SIGUSR1');
  await ended;
}

/** The losses of a recording by step, as text: columns 1 and 7 of the exported table. */
function lossesOf(runDir: string): ReadonlyMap<number, string> {
  const target = join(folder, 'losses.csv');
  const recording = join(folder, runDir, 'run.ttrec');
  execFileSync(kProgram, ['export', recording, '--to', 'csv', '--output', target, '--force']);
  const [head, ...rows] = fs.readFileSync(target, 'utf8').trim().split('\n');
  const at = (head ?? '').split(',').indexOf('loss');
  return new Map(rows.map((row) => [Number(row.split(',')[0]), row.split(',')[at] ?? '']));
}

/** The text beside the loss curve, while the mouse is at this share of its width. */
async function readoutAt(page: Page, share: number): Promise<string> {
  await idle(page);
  const box = await page.locator('.u-over').first().boundingBox();
  if (box === null) throw new Error('no curve on the page');
  await page.mouse.move(box.x + 1 + share * (box.width - 2), box.y + box.height / 2);
  await idle(page);
  return page.getByTestId('loss-readout').innerText();
}

/** Presses Checkpoint now in the Overview. Returns the step of the checkpoint. */
async function saveNow(page: Page): Promise<number> {
  const row = page.getByTestId('checkpoints');
  await expect(row).toContainText('none saved', kPatience);
  await page.getByTestId('checkpoint-now').click();
  const toast = page.getByTestId('toast').filter({ hasText: 'The checkpoint of step' });
  await expect(toast).toBeVisible(kPatience);
  const step = Number(/step (\d+)/.exec(await toast.innerText())?.[1]);
  await expect(row).toContainText(`last of step ${step}`, kPatience);
  await expect(page.getByText(`Checkpoint of step ${step} saved`).first()).toBeVisible();
  return step;
}

/** Runs the command of the page in a shell, as a person pastes it, but with another run directory. */
async function paste(command: string, runDir: string): Promise<string> {
  expect(command).toContain('--run-dir runs/first ');
  const line = command.replace('--run-dir runs/first ', `--run-dir ${runDir} `);
  const path = `${dirname(kProgram)}:${process.env.PATH ?? ''}`;
  const env = { ...process.env, PATH: path };
  kStarted.push(spawn('sh', ['-c', `exec ${line}`], { cwd: folder, stdio: 'ignore', env }));
  return pageOf(join(folder, runDir));
}

test.beforeAll(() => {
  folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), 'tensor-tracer-checkpoints-')));
  fs.writeFileSync(join(folder, 'text.txt'), 'A run that stops may go on later. '.repeat(400));
});

test.afterAll(async () => {
  for (const run of kStarted) await endRun(run);
  fs.rmSync(folder, { recursive: true });
});

test('a checkpoint from the page, and the run that resumes from it', kNightly, async ({ page }) => {
  test.setTimeout(180_000);
  await page.setViewportSize({ width: 1440, height: 900 });
  const line = [...kSmallRun, '--train-iters', '1000000', '--run-name', 'first', '--save', 'saved'];
  const first = await startRun(folder, 'runs/first', line);
  kStarted.push(first.run);
  await page.goto(first.url.replace('/#', '/?tab=overview&events=1#'));
  await expect.poll(() => newestStep(page), kPatience).toBeGreaterThan(30);
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveAttribute('data-word', 'paused', kPatience);
  const step = await saveNow(page);
  expect(fs.existsSync(join(folder, 'saved', `step_${String(step).padStart(8, '0')}`))).toBe(true);

  const command = await page.getByTestId('checkpoints').locator('code').innerText();
  await page.screenshot({ path: 'test-results/session/checkpoint-light.png' });
  // The run goes on, and its later steps are abandoned.
  await page.getByTestId('pause').click();
  await expect.poll(() => newestStep(page), kPatience).toBeGreaterThan(step + 20);
  first.run.kill('SIGKILL');
  await once(first.run, 'exit');
  const before = lossesOf('runs/first');

  const url = await paste(command, 'runs/second');
  await page.goto(url.replace('/#', '/?tab=overview#'));
  await expect(page.getByTestId('parent')).toContainText(`from step ${step} of first`, kPatience);
  await expect.poll(() => newestStep(page), kPatience).toBeGreaterThan(step + 5);
  await expect(async () => {
    const shown = await readoutAt(page, 0);
    expect(Number(/step (\d+)/.exec(shown)?.[1])).toBeLessThan(step);
  }).toPass(kPatience);
  // Resumed training repeats the abandoned steps with the same losses.
  await expect.poll(() => lossesOf('runs/second').size, kPatience).toBeGreaterThan(5);
  for (const [each, loss] of lossesOf('runs/second'))
    if (before.has(each)) expect(loss).toBe(before.get(each));
  await page.screenshot({ path: 'test-results/session/resumed-light.png' });
  await page.emulateMedia({ colorScheme: 'dark' });
  await idle(page);
  await page.screenshot({ path: 'test-results/session/resumed-dark.png' });
});
