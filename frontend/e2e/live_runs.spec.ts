import AxeBuilder from '@axe-core/playwright';
import { expect, type Locator, type Page, test } from '@playwright/test';
import { type ChildProcess, execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { kSmallRun, startRun } from './live_support.ts';
import { idle, kNightly } from './support.ts';

// Every run is kept: the page of a run offers the others, also one of which every process was
// killed. TT_PROGRAM: the program that trains. These runs are small and have their own folder.

const kPatience = { timeout: 60_000 };
const kProgram = process.env.TT_PROGRAM ?? '';

interface ListedRun {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly step: number;
  readonly loss: number;
  readonly kept: boolean;
}

let folder = '';
const kStarted: ChildProcess[] = [];

/** A run on one rank, and the address of its page with its token. */
async function start(name: string, rate: string): Promise<{ run: ChildProcess; url: string }> {
  const line = [...kSmallRun, '--train-iters', '1000000', '--run-name', name, '--lr', rate];
  const started = await startRun(folder, `runs/${name}`, line);
  kStarted.push(started.run);
  return { run: started.run, url: started.url.replace('/#', '/?tab=overview&events=0#') };
}

function listed(name: string): ListedRun {
  const text = execFileSync(kProgram, ['runs', '--json'], { cwd: folder, encoding: 'utf8' });
  const run = (JSON.parse(text) as ListedRun[]).find((each) => each.name === name);
  if (run === undefined) throw new Error(`no run ${name}: ${text}`);
  return run;
}

/** The processes that were started in the runs' folder: trainers, supervisors, hubs. */
function processes(): readonly number[] {
  return fs.readdirSync('/proc').flatMap((entry) => {
    try {
      return /^\d+$/.test(entry) && fs.readlinkSync(`/proc/${entry}/cwd`) === folder
        ? [Number(entry)]
        : [];
    } catch {
      return [];
    }
  });
}

/** All at once: none of them sees another one die. */
function killAll(): void {
  const doomed = processes();
  for (const signal of ['SIGSTOP', 'SIGKILL'])
    for (const each of doomed) process.kill(each, signal);
}

function row(page: Page, name: string): Locator {
  return page.getByTestId('other-runs').getByRole('listitem').filter({ hasText: name });
}

/** Pixels of the loss curve's picture that have this colour, or a mix of it with the white ground. */
async function pixelsOf(page: Page, variable: string): Promise<number> {
  await idle(page);
  return page
    .locator('.uplot canvas')
    .first()
    .evaluate((element, name) => {
      const canvas = element as HTMLCanvasElement;
      const text = getComputedStyle(canvas).getPropertyValue(name).trim();
      const darker = [1, 3, 5].map((at) => 255 - parseInt(text.slice(at, at + 2), 16));
      const context = canvas.getContext('2d');
      const data = context?.getImageData(0, 0, canvas.width, canvas.height).data ?? [];
      let count = 0;
      for (let i = 0; i < data.length; i += 4) {
        // The canvas is clear where nothing is drawn.
        const alpha = data[i + 3] / 255;
        const dark = darker.map((_, channel) => alpha * (255 - data[i + channel]));
        const share = Math.max(...dark) / Math.max(...darker);
        const off = darker.map((value, channel) => Math.abs(dark[channel] - share * value));
        if (share > 0.3 && Math.max(...off) < 14) count += 1;
      }
      return count;
    }, variable);
}

/** The step at the right end of the loss curve, as the readout tells it. */
async function lastStepShown(page: Page): Promise<number> {
  await idle(page);
  const box = await page.locator('.u-over').first().boundingBox();
  if (box === null) throw new Error('no curve on the page');
  await page.mouse.move(box.x + box.width - 1, box.y + box.height / 2);
  await idle(page);
  const text = await page.getByTestId('loss-readout').innerText();
  return Number(/step (\d+)/.exec(text)?.[1]);
}

/** Light, dark and as at 200 % zoom, for review. */
async function picture(page: Page, name: string): Promise<void> {
  const shoot = async (mode: string): Promise<void> => {
    await idle(page);
    await page.screenshot({ path: `test-results/session/${name}-${mode}.png` });
  };
  await shoot('light');
  await page.emulateMedia({ colorScheme: 'dark' });
  await shoot('dark');
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 720, height: 450 });
  await shoot('zoomed');
  await page.setViewportSize({ width: 1440, height: 900 });
}

async function serious(page: Page): Promise<readonly string[]> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${String(node.target[0])}`));
}

test.beforeAll(() => {
  folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), 'tensor-tracer-runs-')));
  fs.writeFileSync(join(folder, 'text.txt'), 'Every run is kept, and so is its loss. '.repeat(400));
});

test.afterAll(() => {
  killAll();
  fs.rmSync(folder, { recursive: true });
});

test(
  'a page shows the losses of the other runs, also of one that was killed',
  kNightly,
  async ({ page }) => {
    test.setTimeout(240_000);
    await page.setViewportSize({ width: 1440, height: 900 });
    const first = await start('first', '1e-3');
    const second = await start('second', '3e-4');

    await test.step('a run that goes on: its loss, its page', async () => {
      await page.goto(second.url);
      await expect(row(page, 'first')).toContainText('running', kPatience);
      const link = row(page, 'first').getByRole('link', { name: 'Open' });
      await expect(link).toHaveAttribute('href', first.url.replace(/\?.*/, ''));
      expect(await pixelsOf(page, '--other-1')).toBeLessThan(10);
      await page.getByLabel('Show the loss of first').check();
      await expect.poll(() => pixelsOf(page, '--other-1'), kPatience).toBeGreaterThan(40);
    });

    await test.step('a run that was stopped: its last loss', async () => {
      const ended = new Promise((resolve) => first.run.once('exit', resolve));
      first.run.kill('SIGTERM');
      await ended;
      await expect(async () => {
        await page.getByRole('button', { name: 'Refresh' }).click();
        await expect(row(page, 'first')).toContainText('stopped', { timeout: 2000 });
      }).toPass(kPatience);
      const { step, loss } = listed('first');
      await expect(row(page, 'first')).toContainText(`loss ${Number(loss.toPrecision(4))}`);
      const told = await row(page, 'first').innerText();
      expect(told.replace(/\s/g, '')).toContain(`step${step}·`);
    });

    await test.step('a run is kept from now on', async () => {
      await expect(page.getByTestId('recording')).toContainText(/of 256|at most 256/, kPatience);
      await page.getByTestId('keep-run').click();
      await expect(page.getByTestId('recording')).toContainText('no limit', kPatience);
      await expect(page.getByTestId('keep-run')).toHaveCount(0);
      await expect(page.getByTestId('event-list')).toContainText('All traced data is kept');
      expect(listed('second').kept).toBe(true);
    });

    killAll();
    const lost = listed('second');
    expect(lost.state).toBe('lost');
    expect(lost.step).toBeGreaterThan(10);
    const third = await start('third', '1e-4');

    await test.step('the page of the next run: the whole curve of the killed run', async () => {
      await page.goto(third.url);
      await page.getByTestId('pause').click(kPatience);
      await expect(page.getByTestId('chip')).toHaveAttribute('data-word', 'paused', kPatience);
      await expect(row(page, 'second')).toContainText('lost', kPatience);
      await page.getByLabel('Show the loss of second').check();
      await page.getByLabel('Show the loss of first').check();
      await expect.poll(() => pixelsOf(page, '--other-1'), kPatience).toBeGreaterThan(40);
      await expect.poll(() => pixelsOf(page, '--other-2'), kPatience).toBeGreaterThan(40);
      const last = Math.max(lost.step, listed('first').step, listed('third').step);
      // A pixel of the curve is up to three steps.
      const shown = await lastStepShown(page);
      expect(shown).toBeGreaterThanOrEqual(last - 3);
      expect(shown).toBeLessThanOrEqual(last);
      await picture(page, 'other-runs');
      expect(await serious(page)).toEqual([]);
      await page.reload();
      await expect.poll(() => pixelsOf(page, '--other-2'), kPatience).toBeGreaterThan(40);
    });

    await test.step('it can be opened and compared', async () => {
      await page.getByRole('button', { name: 'Open second' }).click();
      const command = await row(page, 'second').locator('code').innerText();
      expect(fs.existsSync(command.replace('tensor-tracer replay ', ''))).toBe(true);
      await page.getByRole('button', { name: 'Compare with second' }).click();
      await expect(page.getByLabel('Run of B')).toHaveValue(lost.id);
      await expect(page.getByTestId('not-compared')).toHaveCount(0, kPatience);
      await picture(page, 'compare-runs');
    });
  },
);
