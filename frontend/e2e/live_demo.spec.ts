import { expect, type Locator, type Page, test } from '@playwright/test';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pauseTheOtherRun } from './live_support.ts';
import { addressOf, idle, kNightly, spotOf } from './support.ts';

// One session with scripts/demo.sh, from its first line to the replay of its recording, as
// docs/first_session.md tells it. TT_PICTURES=DIR keeps the pictures that the docs show. TT_SESSION_MINUTES=10 takes
// as long as a reader does: the page is looked at after each part.

const kRoot = fileURLToPath(new URL('../..', import.meta.url));
const kPatience = { timeout: 120_000 };
const kTiles = 64;

/** The page's address with its token, as soon as the demo has printed it. */
function printedAddress(demo: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = '';
    demo.on('exit', (code) => reject(new Error(`the demo ended with ${code}: ${said}`)));
    demo.stdout?.on('data', (piece: Buffer) => {
      said += piece.toString();
      const url = /http:\/\/\S+#token=\S+/.exec(said)?.[0];
      if (url !== undefined) resolve(url);
    });
  });
}

function endOf(process: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    let said = '';
    process.stdout?.on('data', (piece: Buffer) => (said += piece.toString()));
    process.on('close', () => resolve(said));
  });
}

async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env.TT_PICTURES ?? 'test-results/session';
  await page.mouse.move(0, 0);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await idle(page);
    await page.screenshot({ path: `${folder}/${name}-${colorScheme}.png` });
  }
}

/** Drags over the tiles and tokens of a map, and pins a cell of the part that is left. */
async function zoomAndPin(page: Page, map: Locator): Promise<void> {
  const box = await map.boundingBox();
  if (box === null) throw new Error('no map');
  const [from, to] = [
    await spotOf(map, 8, 64, kTiles, 256),
    await spotOf(map, 31, 127, kTiles, 256),
  ];
  await page.mouse.move(box.x + from.x, box.y + from.y);
  await page.mouse.down();
  await page.mouse.move(box.x + to.x - 3, box.y + to.y, { steps: 4 });
  await page.mouse.move(box.x + to.x, box.y + to.y);
  await page.mouse.up();
  await idle(page);
  expect(new URL(page.url()).searchParams.get('cols')).toBe('64-128');
  await map.click({ position: await spotOf(map, 4, 20, 24, 64) });
  await expect(page.getByTestId('pin')).toBeVisible();
}

const kParts = 4;

async function part(page: Page, name: string, body: () => Promise<void>): Promise<void> {
  await test.step(name, body);
  const minutes = Number(process.env.TT_SESSION_MINUTES ?? 0);
  if (minutes > 0) await page.waitForTimeout((minutes * 60_000) / kParts);
}

async function useThePage(page: Page): Promise<void> {
  await part(page, 'zoom and pin', async () => {
    await page.getByTestId('tab-tensors').click();
    const map = page.getByTestId('tile-map');
    await expect(map).toBeVisible(kPatience);
    await idle(page);
    await zoomAndPin(page, map);
    await picture(page, 'pinned');
    await map.dblclick({ position: { x: 200, y: 60 } });
  });
  await part(page, 'change the plan', async () => {
    await page.getByTestId('tab-plan').click();
    const preset = page.getByTestId('plan-presets').getByText('Statistics of everything');
    await preset.click();
    await page.getByTestId('apply').click();
    await expect(page.getByTestId('plan-in-force')).toContainText(
      /on 2\/2 ranks, as plan 2/,
      kPatience,
    );
  });
  await part(page, 'type a prompt', async () => {
    await page.getByTestId('tab-prompts').click();
    await page.getByTestId('prompt').fill('def fibonacci(n):');
    await page.getByTestId('run-prompt').click();
    await expect(page.getByTestId('prompt-facts')).toContainText('17 tokens', kPatience);
    await expect(page.getByTestId('tokens').getByRole('option')).toHaveCount(17, kPatience);
    await picture(page, 'prompt');
  });
  await part(page, 'an alarm fires', async () => {
    await page.getByTestId('tab-overview').click();
    await page.getByTestId('alarm-on-loss').click();
    await page.getByTestId('alarm-test').selectOption('value above');
    await page.getByTestId('alarm-value').fill('0.001');
    await page.getByTestId('alarm-name').fill('high loss');
    await page.getByTestId('set-alarm').click();
    await expect(page.getByTestId('alarm')).toContainText(
      'alarm high loss: loss is above',
      kPatience,
    );
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
    await picture(page, 'alarm');
  });
}

test(
  'a session with the demo: zoom, plan, prompt, alarm, Ctrl-C, replay',
  kNightly,
  async ({ page, context }) => {
    test.setTimeout(900_000);
    await page.setViewportSize({ width: 1440, height: 900 });
    const complaints: string[] = [];
    page.on('pageerror', (error) => complaints.push(error.message));
    await pauseTheOtherRun(await context.newPage());
    const folder = mkdtempSync(join(tmpdir(), 'tensor-tracer-demo-'));
    const runDir = join(folder, 'run');
    const flags = ['--tensor-tracer-port', '0', '--print-url', '--run-dir', runDir];
    const demo = spawn('scripts/demo.sh', flags, {
      cwd: kRoot,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const said = endOf(demo);
    let replay: ChildProcess | null = null;
    try {
      await page.bringToFront();
      await page.goto(await printedAddress(demo));
      await useThePage(page);
      await test.step('Ctrl-C', async () => {
        demo.kill('SIGINT');
        await expect(page.getByTestId('chip')).toContainText('stopped', kPatience);
        await picture(page, 'stopped');
        expect(await said).toMatch(/stopped after step \d+ of \d+.*\n.*tensor-tracer replay /);
      });
      await test.step('open the run again', async () => {
        const line = [
          'replay',
          join(runDir, 'run.ttrec'),
          '--port',
          '0',
          '--auth',
          'none',
          '--paused',
        ];
        replay = spawn(process.env.TT_PROGRAM ?? '', line);
        await page.goto(await addressOf(replay));
        await expect(page.getByTestId('chip')).toHaveText('replay, paused', kPatience);
        await page.getByTestId('tab-overview').click();
        await page.getByTestId('seek').press('End');
        await expect(page.getByTestId('event-list')).toContainText('alarm high loss', kPatience);
        await picture(page, 'replay');
      });
    } finally {
      demo.kill('SIGTERM');
      (replay as ChildProcess | null)?.kill('SIGTERM');
      await said;
      rmSync(folder, { recursive: true, force: true });
    }
    expect(complaints).toEqual([]);
  },
);
