import { expect, type Page } from '@playwright/test';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  droppedForPage,
  killHub,
  kLarge,
  kLargeEntries,
  lockRecording,
  whileStuck,
} from './faults.ts';
import { advance, kSlow, openAfter, type RealRun, test } from './real_run.ts';
import { Remote } from './remote.ts';
import { idle, kSmoke, open } from './support.ts';

test.describe('with a token', () => {
  test.use({ flags: ['--tensor-tracer-auth', 'token'] });

  test('the token leaves the address, and a reload works with the cookie', async ({
    page,
    run,
  }) => {
    await run.stepAs('Ada');
    await page.goto(run.signIn('layer=2'));
    await expect(page.getByTestId('tile-map')).toBeVisible();
    expect(page.url()).toBe(run.at('layer=2'));
    expect(await page.content(), 'what a screenshot could show').not.toContain(run.token);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Copy link' }).click();
    await expect(page.getByTestId('message')).toHaveText('Link copied');
    const link = await page.evaluate(() => navigator.clipboard.readText());
    expect(link).not.toContain(run.token);
    const cookies = await page.context().cookies();
    expect(cookies).toMatchObject([{ httpOnly: true, sameSite: 'Strict' }]);
    await page.reload();
    await expect(page.getByTestId('tile-map')).toBeVisible();
    await expect(page.getByTestId('chip')).toHaveText('paused after step 1');
  });

  test('without token and cookie the page says what to do', kSmoke, async ({ page, run }) => {
    await run.stepAs('Ada');
    await page.goto(run.url);
    const sheet = page.getByRole('alertdialog');
    await expect(sheet).toContainText('Open the address that contains the token');
    await expect(sheet).toContainText('--print-url');
    await expect(sheet).toContainText('open.html');
    await page.screenshot({ path: 'test-results/sign-in.png' });
    await page.goto(`${run.url}#token=wrong`);
    await expect(sheet).toContainText('did not accept the token');
    await page.goto(run.signIn());
    await expect(page.getByTestId('tile-map')).toBeVisible();
    await expect(sheet).toHaveCount(0);
  });

  test('the first data are on screen within a second of the load', async ({ page, run }) => {
    await run.stepAs('Ada');
    await page.goto(run.url);
    const begin = Date.now();
    await page.goto(run.signIn());
    await page.reload();
    const loaded = Date.now();
    await expect(page.getByTestId('tile-map')).toBeVisible();
    expect(Date.now() - loaded).toBeLessThan(1000);
    expect(Date.now() - begin).toBeLessThan(5000);
  });
});

test('everything comes from the hub, and nothing breaks its security policy', async ({
  page,
  run,
}) => {
  const hosts = new Set<string>();
  const complaints: string[] = [];
  page.on('request', (request) => hosts.add(new URL(request.url()).host));
  page.on('websocket', (socket) => hosts.add(new URL(socket.url()).host));
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  await openAfter(page, run, 1);
  for (let i = 0; i < 10; i++) await advance(page);
  expect([...hosts]).toEqual([new URL(run.url).host]);
  expect(complaints).toEqual([]);
});

/** The steps whose scalars the page has. */
function stepsOf(page: Page): Promise<readonly number[]> {
  return page.evaluate(() => window.__tt?.app.series.all.map(({ step }) => step) ?? []);
}

test.describe('a run that trains', () => {
  test.use({ flags: kSlow });

  test('a hub that dies and comes back is found again, without duplicates', async ({
    page,
    run,
  }) => {
    await run.goOn();
    await open(page, run);
    await expect.poll(() => run.step).toBeGreaterThan(3);
    const chip = page.getByTestId('chip');
    let held = 0;
    await killHub(run, async () => {
      await expect(chip).toHaveText(/reconnecting in \d\.\d s/);
      await page.screenshot({ path: 'test-results/reconnecting.png' });
      await page.waitForTimeout(1500);
      await expect(chip).toHaveAttribute('data-word', 'reconnecting');
      held = (await stepsOf(page)).at(-1) ?? 0;
    });
    const back = Date.now();
    await expect(chip).toHaveText('live', { timeout: 5000 });
    expect(Date.now() - back).toBeLessThan(3000);
    await expect.poll(() => run.step).toBeGreaterThan(held + 2);
    await page.getByTestId('pause').click();
    const last = await run.pausedAfter();
    await expect(page.getByTestId('shown-step')).toHaveText(`step ${last}`);
    await idle(page);
    const kept = (await run.scalars()).map(({ step }) => step);
    expect(new Set(kept).size).toBe(kept.length);
    expect(await stepsOf(page)).toEqual(kept);
    // The trainer kept the steps without a hub for the next hub; one may have been on its way to the killed hub.
    const first = held + 2;
    const missed = Array.from({ length: last - first + 1 }, (_, i) => first + i);
    expect(kept.filter((step) => step >= first)).toEqual(missed);
  });
});

test('a hub that takes no more viewers is told, and joined when one has left', async ({
  page,
  run,
}) => {
  await run.stepAs('Ada');
  const places = Array.from({ length: 63 }, () => Remote.connect(run.url, run.token));
  const viewers = await Promise.all(places);
  await page.goto(run.url);
  const why = 'the hub cannot take more viewers';
  await expect(page.getByTestId('message')).toContainText(why);
  await expect(page.getByTestId('no-maps')).toContainText('Not connected to the hub');
  await expect(page.getByTestId('no-maps')).toContainText(why);
  for (const viewer of viewers) viewer.close();
  await expect(page.getByTestId('tile-map')).toBeVisible();
  await expect(page.getByTestId('message')).toHaveText('');
});

test.describe('a run of three steps', () => {
  test.use({
    flags: ['--train-iters', '3', '--eval-interval', '2', '--eval-iters', '200'],
  });

  test('states of the run show in the chip', async ({ page, run }) => {
    await openAfter(page, run, 1);
    const chip = page.getByTestId('chip');
    await expect(chip).toHaveText('paused after step 1');
    const isDone = advance(page);
    await expect(chip).toHaveText('live · evaluating');
    await isDone;
    await expect(chip).toHaveText('paused after step 2');
    // The last step has an evaluation, too.
    await page.getByTestId('pause').click();
    await expect(chip).toContainText('ended at step 3', { timeout: 15_000 });
  });
});

/** What the page should say of drops, from the hub's own counts. */
async function dropsOf(run: RealRun): Promise<string> {
  const here = await droppedForPage(run);
  const recorder = await run.metric('records_dropped_total{reason="recorder"}');
  const lines = await run.metric('recording_lines_dropped_total');
  const places = `${here} here, 0 at the trainer`;
  return `dropped: ${places}${recorder > 0 ? `, ${recorder + lines} not recorded` : ''}`;
}

test.describe('a run with large records', () => {
  test.use({ flags: kLarge });

  test('drops and messages of the run are shown', kSmoke, async ({ page, run }) => {
    await run.setPlan(...kLargeEntries);
    await run.stepAs('Ada');
    await open(page, run);
    const drops = page.getByTestId('drops');
    await expect(drops).toHaveText('no drops');
    await whileStuck(page, () => run.stepAs('Ada', 4));
    const lost = await droppedForPage(run);
    await expect(drops).toHaveText(`dropped: ${lost} here, 0 at the trainer`);
    const tip = (await drops.getAttribute('title')) ?? '';
    const [, hidden, mlp] = /entry 1, HiddenStates: (\d+)\nentry 2, MLP1: (\d+)$/.exec(tip) ?? [];
    expect(Number(hidden) + Number(mlp)).toBe(lost);

    const lock = await lockRecording(run);
    await run.stepAs('Ada', 20);
    await expect.poll(() => run.remote.told('dropped')?.where).toBe('recording');
    await lock.release();
    await expect(async () => {
      await expect(drops).toHaveText(await dropsOf(run), { timeout: 500 });
    }).toPass();
    await expect(drops).toContainText('not recorded');

    rmSync(join(run.folder, 'run.ttrec'));
    await run.stepAs('Ada');
    const removed = 'the recording was deleted or replaced while it is written';
    await expect(page.getByTestId('message')).toContainText(removed);
  });
});
