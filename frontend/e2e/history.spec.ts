import { expect, mergeTests } from '@playwright/test';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { killHub, kForgetful, kLostStep, openWithLostStep } from './faults.ts';
import { advance, kFast, kSlow, openAfter, test as withRun, visit } from './real_run.ts';
import { kLayers, kTiles, kTokens, test as withRecorded } from './recorded.ts';
import {
  choose,
  digits,
  hoverTile,
  idle,
  kSmoke,
  open,
  openPlan,
  seriousOf,
  spotOf,
  tipValue,
} from './support.ts';

const test = mergeTests(withRecorded, withRun);

test.describe('a long run', () => {
  const kSteps = 2100;
  test.use({ flags: kFast });

  test('the loss curve shows all of the run, not only what the hub repeats', async ({
    page,
    run,
  }) => {
    test.slow();
    expect(await run.doSteps(kSteps)).toHaveLength(kSteps);
    await visit(page, run, 'tab=overview', 'overview');
    await expect.poll(() => page.evaluate(() => window.__tt?.app.series.all.length)).toBe(kSteps);
  });
});

test('a step that the page does not hold comes from the history', async ({ page, recorded }) => {
  await open(page, recorded);
  const source = page.getByTestId('step-source');
  await expect(source).toHaveText('');
  await page.getByLabel('One captured step back').click();
  await expect(page.getByTestId('shown-step')).toHaveText('step 29');
  await expect(source).toContainText('Fetched from history');
  await page.getByLabel('Shown step, of the steps in').fill('10');
  await expect(page.getByTestId('shown-step')).toHaveText('step 10');
  await expect(source).toContainText('Fetched from history');
  await idle(page);
  await hoverTile(page, 5, 17, kTiles, kTokens);
  expect(await tipValue(page)).toBe(digits(recorded.expected.tile(1, 10, 17, 5)));
  await expect(page.getByTestId('tip')).toContainText(`id ${recorded.expected.token(10, 17)}`);
  await page.screenshot({ path: 'test-results/fetched.png' });
  await page.getByTestId('follow').click();
  await expect(page.getByTestId('shown-step')).toHaveText('step 30');
  await expect(source).toHaveText('');
});

test('a curve over the steps begins before the page came', async ({ page, recorded }) => {
  await open(page, recorded);
  await choose(page, 'over steps');
  const map = page.getByTestId('over-map');
  const columns = 30;
  await expect(page.getByLabel(`of ${kLayers} layers at ${columns} steps`)).toBeVisible();
  await map.hover({ position: await spotOf(map, 1, 4, kLayers, columns) });
  const numbers = recorded.expected.values('tiles', 2, 5);
  const mean = numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
  expect(await tipValue(page)).toBeCloseTo(mean, 6);
  await expect(page.getByTestId('tip')).toContainText('5');
});

test.describe('a run that keeps no records', () => {
  test.use({ flags: kForgetful });

  test('a step that nobody keeps is shown as a gap', kSmoke, async ({ page, run }) => {
    await openWithLostStep(page, run);
    const shown = page.getByTestId('shown-step');
    await page.locator('body').press('ArrowLeft');
    await expect(shown).toHaveText(`step ${kLostStep + 1}`);
    await page.locator('body').press('ArrowLeft');
    const gap = `No data of MLP1 at step ${kLostStep}`;
    await expect(page.getByTestId('no-maps')).toContainText(gap);
    await expect(page.getByTestId('step-source')).toHaveText('no data of this step');
    await page.screenshot({ path: 'test-results/gap.png' });
    await page.locator('body').press('ArrowLeft');
    await expect(shown).toHaveText(`step ${kLostStep - 1}`);
    await expect(page.getByTestId('tile-map')).toBeVisible();
  });
});

test('without a history the page goes through what it holds', async ({ page, run }) => {
  const { run_id: id } = JSON.parse(run.read('hub.json')) as { readonly run_id: string };
  await killHub(run, () => {
    for (const name of ['run.ttrec', `run-${id}.ttrec`]) {
      rmSync(join(run.folder, name), { force: true });
      mkdirSync(join(run.folder, name));
    }
  });
  await visit(page, run, '', 'start');
  await advance(page);
  // Only from here on, the page surely watches. Other numbers are another series.
  const entry = { point: 'HiddenStates', compressor: { kind: 'tile', tiles: 4 } };
  await page.evaluate((entry) => window.__tt?.app.control.setPlan({ entries: [entry] }), entry);
  const shown = page.getByTestId('shown-step');
  for (const step of [2, 3, 4]) {
    await advance(page);
    await expect(shown).toHaveText(`step ${step}`);
    if (step === 2) await expect(page.getByLabel('One captured step back')).toBeDisabled();
  }
  await page.locator('body').press('ArrowLeft');
  await expect(shown).toHaveText('step 3');
});

interface Frame {
  readonly payload: string | Buffer;
}

/** What the page says to the hub. */
interface Said {
  readonly event?: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

test('what was taken is acknowledged', async ({ page, run }) => {
  let taken = 0;
  const said: Said[] = [];
  page.on('websocket', (socket) => {
    socket.on('framereceived', ({ payload }: Frame) => (taken += Number(Buffer.isBuffer(payload))));
    socket.on('framesent', ({ payload }: Frame) =>
      said.push(JSON.parse(payload.toString()) as Said),
    );
  });
  await openAfter(page, run, 1);
  expect(said[0]).toMatchObject({ method: 'hello', params: { window: 1 } });
  const acknowledged = (): unknown =>
    said.findLast(({ event }) => event === 'ack')?.params?.messages;
  await expect.poll(acknowledged).toBe(taken);
  const before = taken;
  for (let i = 0; i < 6; i++) await advance(page);
  await expect(page.getByTestId('shown-step')).toHaveText('step 7');
  expect(taken).toBe(before + 6);
  await expect.poll(acknowledged).toBe(taken);
});

test('a replay is moved, sped up and stepped; its plan stays', async ({ page, recorded }) => {
  await open(page, recorded);
  await expect(page.getByTestId('chip')).toHaveText('replay, paused');
  await openPlan(page);
  await expect(page.getByTestId('apply')).toBeDisabled();
  await expect(page.getByTestId('plan-access')).toContainText('cannot be traced again');
  await expect(page.getByTestId('plan-claim')).toHaveCount(0);
  await page.getByTestId('tab-tensors').click();
  await page.getByTestId('speed').selectOption('0.1');
  await expect(page.getByTestId('holder')).toContainText('you');
  await expect(page.getByTestId('stop')).toHaveCount(0);
  const shown = page.getByTestId('shown-step');
  await page.getByTestId('seek').fill('20');
  await expect(shown).toHaveText('step 20');
  await page.getByTestId('seek').press('ArrowRight');
  await expect(shown).toHaveText('step 21');
  await page.getByTestId('seek').fill('6');
  await expect(shown).toHaveText('step 6');
  await expect(page.getByTestId('step')).toHaveText(/6\s*\/\s*40/);
  await page.getByTestId('step-once').click();
  await expect(shown).toHaveText('step 7');
  await expect(page.getByTestId('message')).toHaveText('Step 7 done');
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveText('replay, 0.1×');
  await expect(shown).toHaveText(/^step ([89]|[1-3]\d|40)$/, { timeout: 10_000 });
  await page.screenshot({ path: 'test-results/replay.png' });
});

test.describe('from the first step', () => {
  test.use({ firstStep: 1 });

  test('the curves of a replay are whole, however it is moved', async ({ page, recorded }) => {
    await open(page, recorded);
    const length = (): Promise<number | undefined> =>
      page.evaluate(() => window.__tt?.app.series.all.length);
    await expect.poll(length).toBe(40);
    await page.getByTestId('step-once').click();
    await expect(page.getByTestId('shown-step')).toHaveText('step 2');
    await idle(page);
    expect(await length()).toBe(40);
  });
});

test.describe('a run that trains', () => {
  test.use({ flags: kSlow });

  test('stop asks first, and only the holder of control sees it', async ({ page, run }) => {
    await run.goOn();
    await open(page, run);
    await expect(page.getByTestId('stop')).toHaveCount(0);
    await page.getByTestId('holder').click();
    await page.getByTestId('claim').click();
    await page.getByTestId('stop').click();
    const dialog = page.getByRole('dialog', { name: 'Stop the run?' });
    await expect(dialog).toBeVisible();
    await page.screenshot({ path: 'test-results/stop.png' });
    await page.keyboard.press('Escape');
    await expect(dialog).toBeHidden();
    const { step } = run;
    await expect.poll(() => run.step).toBeGreaterThan(step);
    await page.getByTestId('stop').press('Enter');
    await page.getByTestId('stop-confirm').press('Enter');
    await expect.poll(() => run.state.phase).toBe('stopped');
    const last = run.state.step;
    await expect(page.getByTestId('chip')).toContainText(`stopped after step ${last}`);
    await expect(page.getByTestId('message')).toHaveText(
      `The run ends after step ${last} on 2/2 ranks`,
    );
  });
});

test.describe('with a token that only views', () => {
  test.use({ flags: [...kSlow, '--tensor-tracer-auth', 'token'] });

  test('a token that only views has nothing to claim', async ({ page, run }) => {
    await run.goOn();
    await open(page, { url: run.signIn('', 'viewer_token') });
    await page.getByTestId('holder').click();
    await expect(page.getByTestId('view-only')).toHaveText('This token allows only viewing.');
    await expect(page.getByTestId('claim')).toHaveCount(0);
    await expect(page.getByTestId('pause')).toBeDisabled();
    await openPlan(page);
    await expect(page.getByTestId('apply')).toBeDisabled();
    await expect(page.getByTestId('plan-access')).toHaveText(
      'Read-only: this token allows only viewing.',
    );
    await expect(page.getByTestId('plan-claim')).toHaveCount(0);
  });
});

test('an entry that is off is shown so, and is switched on again', async ({ page, run }) => {
  const [first, ...rest] = run.plan.entries;
  const entries = [{ ...first, enabled: false }, ...rest];
  await run.setPlan(...entries);
  await openAfter(page, run, 1);
  await expect(page.getByTestId('point')).toHaveValue('MLP1');
  await page.getByTestId('point').selectOption('HiddenStates');
  await expect(page.getByTestId('no-maps')).toContainText('HiddenStates is off');
  await openPlan(page);
  await expect(page.getByLabel('Entry 1 on')).not.toBeChecked();
  await expect(page.getByTestId('entry-summary-1')).toContainText('off');
  await page.screenshot({ path: 'test-results/entry-off.png' });
  await page.getByLabel('Entry 2 on').press('Space');
  await page.getByTestId('apply').click();
  await expect(page.getByTestId('plan-in-force')).toContainText('In force since step 2');
  expect(run.plan.entries.map(({ enabled }) => enabled)).toEqual([false, false, undefined]);
});

for (const colorScheme of ['dark', 'light'] as const) {
  test(`no serious finding of axe in a replay, ${colorScheme}`, async ({ page, recorded }) => {
    await page.emulateMedia({ colorScheme });
    await open(page, recorded);
    await page.getByLabel('One captured step back').click();
    await expect(page.getByTestId('step-source')).toContainText('Fetched from history');
    await page.screenshot({ path: `test-results/replay-${colorScheme}.png` });
    await expect(page.getByTestId('holder')).toBeInViewport({ ratio: 1 });
    expect(await seriousOf(page)).toEqual([]);
  });
}
