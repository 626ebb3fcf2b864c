import { expect, type Page } from '@playwright/test';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RealRun } from './real_run.ts';
import { idle, kPython } from './support.ts';

// What goes wrong around a real run: its hub dies, another program locks its recording, a page is stuck.

/** The process of the run's hub. */
export function hubOf(run: RealRun): number {
  return (JSON.parse(run.read('hub.json')) as { readonly pid: number }).pid;
}

function parentOf(process: number): number {
  const status = readFileSync(`/proc/${process}/status`, 'utf8');
  return Number(/^PPid:\s+(\d+)/m.exec(status)?.[1]);
}

/** Kills the run's hub. Its supervisor starts another only after `meanwhile`. */
export async function killHub(
  run: RealRun,
  meanwhile: () => void | Promise<void> = () => undefined,
): Promise<void> {
  const killed = hubOf(run);
  const supervisor = parentOf(killed);
  process.kill(supervisor, 'SIGSTOP');
  try {
    process.kill(killed, 'SIGKILL');
    await meanwhile();
  } finally {
    process.kill(supervisor, 'SIGCONT');
  }
  await expect(() => expect(hubOf(run)).not.toBe(killed)).toPass({ intervals: [20] });
  await run.join();
  await expect.poll(() => run.state.phase, { intervals: [20] }).not.toBe('starting');
}

const kLock = `import sqlite3, sys
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
other.execute("ROLLBACK")`;

/** Lets another program lock the run's recording, so that the hub cannot write it. */
export async function lockRecording(run: RealRun): Promise<{ release(): Promise<void> }> {
  const other = spawn(kPython, ['-c', kLock, join(run.folder, 'run.ttrec')]);
  const ended = once(other, 'exit');
  await once(other.stdout, 'data');
  return {
    release: async () => {
      other.stdin.end();
      await ended;
    },
  };
}

/** Lets the page take nothing from the hub during `action`: its worker waits for an answer. */
export async function whileStuck(page: Page, action: () => Promise<void>): Promise<void> {
  let free = (): void => undefined;
  const isDone = new Promise<void>((resolve) => (free = resolve));
  await page.route('**/stuck', async (route) => {
    await isDone;
    await route.fulfill({ body: '' });
  });
  const asked = page.waitForRequest('**/stuck');
  const stuck = page.workers()[0].evaluate(() => {
    const request = new XMLHttpRequest();
    request.open('GET', '/stuck', false);
    request.send();
  });
  try {
    await asked;
    await action();
  } finally {
    free();
  }
  await stuck;
}

/** So many records a viewer other than the test's did not get, because it was slow. */
export async function droppedForPage(run: RealRun): Promise<number> {
  const { viewers } = (await run.remote.ask('viewers.list', {})) as {
    readonly viewers: readonly { readonly session: string; readonly dropped_records: number }[];
  };
  const pages = viewers.filter(({ session }) => session !== run.remote.hello.session);
  return pages.reduce((sum, { dropped_records: count }) => sum + count, 0);
}

/** With these flags a record of all numbers of MLP1 is so large that a newer one replaces it while it waits. */
export const kLarge: readonly string[] = ['--micro-batch-size', '16', '--global-batch-size', '16'];
const kWhole = { rows: 0, dtype: 'f64', compressor: { kind: 'none' } } as const;
export const kLargeEntry = { point: 'MLP1', layers: '2', ...kWhole } as const;
export const kLargeEntries = [
  { point: 'HiddenStates', ...kWhole },
  { point: 'MLP1', ...kWhole },
] as const;

/** A run with these flags keeps no records. */
export const kForgetful: readonly string[] = [...kLarge, '--history', 'off'];
export const kLostStep = 4;

/** Opens the page and shows it steps 2, 3, 5 and 6. The records of step 4 are lost: it is stuck in steps 3 to 5. */
export async function openWithLostStep(page: Page, run: RealRun): Promise<void> {
  const step = async (count = 1): Promise<void> => {
    await run.stepAs('Ada', count);
  };
  const shows = async (number: number): Promise<void> => {
    await expect(page.getByTestId('shown-step')).toHaveText(`step ${number}`);
    await idle(page);
  };
  await run.setPlan(kLargeEntry);
  await step();
  // The page asks the hub which steps it has, so the hub must have one.
  await run.scalars();
  await page.goto(run.url);
  await expect(page.getByTestId('chip')).toHaveText('paused after step 1');
  await idle(page);
  await step();
  await shows(2);
  await whileStuck(page, () => step(3));
  await shows(5);
  await step();
  await shows(6);
}
