import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, type Page, test } from '@playwright/test';

const kPatience = { timeout: 120_000 };

/** The JSON that a script of this folder prints: what the Python client reads of the run at the address. */
export async function readByPython<T>(script: string, address: string): Promise<T> {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const python = process.env.TT_PYTHON ?? 'python3';
  const options = { maxBuffer: 64 * 2 ** 20 };
  const { stdout } = await promisify(execFile)(python, [path, address], options);
  return JSON.parse(stdout) as T;
}

/** Gives control back, so that the next test need not wait 30 s for the end of the lease. */
export async function release(page: Page): Promise<void> {
  await page.evaluate(() => window.__tt?.app.control.release());
}

/** A small model on one rank, on the text `text.txt` of the folder that the run is started in. */
export const kSmallRun: readonly string[] = (
  '--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --micro-batch-size 4 ' +
  '--global-batch-size 4 --threads 1 --data-path text.txt --log-format json --tensor-tracer-port 0'
).split(' ');

/** Starts a run of TT_PROGRAM in the folder, and waits for its page's address with the token. */
export async function startRun(
  folder: string,
  runDir: string,
  flags: readonly string[],
): Promise<{ readonly run: ChildProcess; readonly url: string }> {
  const line = ['train', '--run-dir', runDir, ...flags];
  const program = process.env.TT_PROGRAM ?? '';
  const run = spawn(program, line, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
  return { run, url: await pageOf(join(folder, runDir)) };
}

/** The address, with its token, of the page of the run in this directory, as soon as its hub serves. */
export async function pageOf(runDir: string): Promise<string> {
  const read = (file: string): string => readFileSync(join(runDir, file), 'utf8');
  let url = '';
  await expect(() => {
    const hub = JSON.parse(read('hub.json')) as { readonly url: string };
    url = `${hub.url}#token=${read('token').trim()}`;
  }).toPass({ timeout: 60_000 });
  return url;
}

/** The run of TT_PAGE_URL makes way: it is paused while its page is open. */
export async function pauseTheOtherRun(page: Page): Promise<void> {
  await page.goto(process.env.TT_PAGE_URL ?? '');
  await expect(page.getByTestId('pause')).toBeEnabled(kPatience);
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveAttribute('data-word', 'paused', kPatience);
}

/** What the browser's console says is wrong with the page. */
export function complaintsOf(page: Page): readonly string[] {
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (said) => {
    if (said.type() === 'error') complaints.push(said.text());
  });
  return complaints;
}

/** A small run without an end for the tests of a file, in a folder with these files. Its address comes with the first test. */
export function smallRun(
  files: Readonly<Record<string, string>>,
  ...flags: readonly string[]
): { readonly url: string } {
  const shared = { url: '' };
  let folder = '';
  let run: ChildProcess | null = null;
  test.beforeAll(async () => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), 'tensor-tracer-small-')));
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    const endless = [...kSmallRun, '--train-iters', '1000000', ...flags];
    ({ run, url: shared.url } = await startRun(folder, 'run', endless));
  });
  test.afterAll(async () => {
    const ended = run === null ? undefined : once(run, 'exit');
    run?.kill('SIGUSR1');
    await ended;
    rmSync(folder, { recursive: true });
  });
  return shared;
}
