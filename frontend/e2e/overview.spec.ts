import { expect, type Locator, mergeTests, type Page } from '@playwright/test';
import {
  droppedForPage,
  kForgetful,
  killHub,
  kLargeEntry,
  lockRecording,
  whileStuck,
} from './faults.ts';
import { kFast, kSlow, type RealRun, test as withRun, visit } from './real_run.ts';
import { test as withRecorded } from './recorded.ts';
import { Remote } from './remote.ts';
import { advance, idle, kSmoke, seriousOf } from './support.ts';

const test = mergeTests(withRecorded, withRun);

/** How many steps have a point in the curves. */
function scalarsOn(page: Page): Promise<number | undefined> {
  return page.evaluate(() => window.__tt?.app.series.all.length);
}

async function openOverview(page: Page, run: RealRun, query = ''): Promise<void> {
  await page.goto(run.at(`tab=overview${query}`));
  await expect(page.getByTestId('shown-step')).toHaveText(/step \d/);
  await expect.poll(() => scalarsOn(page)).toBe(run.step);
  await idle(page);
}

/** The overview of the replay, whose curves are known from the first step to the last. */
async function openRecorded(
  page: Page,
  recorded: { at(query: string): string },
  query = '',
): Promise<void> {
  await page.goto(recorded.at(`tab=overview${query}`));
  await expect(page.getByTestId('shown-step')).toHaveText(/step \d/);
  await expect.poll(() => scalarsOn(page)).toBe(40);
  await idle(page);
}

function events(page: Page): Locator {
  return page.getByTestId('event-list').getByRole('listitem');
}

/** The number after a label, a real minus sign or not. */
async function valueIn(page: Page, testid: string, label: RegExp): Promise<number> {
  const text = await page.getByTestId(testid).innerText();
  return Number(label.exec(text)?.[1].replace(/−/g, '-'));
}

/** A picture of a curve's canvas. */
function picture(page: Page, index = 0): Promise<string> {
  return page
    .locator('.uplot canvas')
    .nth(index)
    .evaluate((element) => (element as HTMLCanvasElement).toDataURL());
}

const shown = (value: number): number => Number(value.toPrecision(4));

test('four curves show the run, and the readouts tell the true numbers', async ({
  page,
  recorded,
}) => {
  const remote = await Remote.connect(recorded.url);
  const { run } = remote.hello as { run: { unigram_entropy: number } };
  remote.close();
  const [loss, gradNorm, rate] = ['loss', 'grad_norm', 'lr'].map((name) =>
    recorded.expected.scalar(name),
  );
  await openRecorded(page, recorded);
  await expect(page.locator('.uplot')).toHaveCount(4);
  expect(await valueIn(page, 'loss-readout', /train\s+(\S+)/)).toBe(shown(loss[29]));
  expect(await valueIn(page, 'loss-readout', /unigram\s+(\S+)/)).toBe(shown(run.unigram_entropy));
  const box = await page.locator('.u-over').first().boundingBox();
  if (box === null) throw new Error('no curve on the page');
  await page.mouse.move(box.x + box.width * 0.4, box.y + box.height / 2);
  await idle(page);
  const step = await valueIn(page, 'loss-readout', /step (\d+)/);
  expect(Math.abs(step - (1 + 0.4 * 29))).toBeLessThan(1);
  const at = step - 1;
  expect(await valueIn(page, 'loss-readout', /train\s+(\S+)/)).toBe(shown(loss[at]));
  expect(await valueIn(page, 'gradNorm-readout', /step \d+\s+(\S+)/)).toBe(shown(gradNorm[at]));
  expect(await valueIn(page, 'rate-readout', /step \d+\s+(\S+)/)).toBe(shown(rate[at]));
  const cursors = await page
    .locator('.u-cursor-x')
    .evaluateAll((all) => all.map((each) => new DOMMatrix(getComputedStyle(each).transform).m41));
  expect(Math.max(...cursors) - Math.min(...cursors)).toBeLessThan(2);
});

/** The seconds in a text such as "about 1 min 08 s". */
function secondsIn(text: string): number {
  const [, minutes = '0', seconds = '0'] = /about (?:(\d+)\smin )?(\d+)\ss/.exec(text) ?? [];
  return 60 * Number(minutes) + Number(seconds);
}

test.describe('a run that trains', () => {
  test.use({ flags: [...kForgetful, ...kSlow] });

  test('the state of run, ranks and hub is told', kSmoke, async ({ page, run }) => {
    await run.setPlan(kLargeEntry);
    await run.goOn();
    await page.goto(run.at('tab=overview'));
    const state = page.getByTestId('run-state');
    await expect(state).toContainText(/about (\d+.min )?\d+.s/);
    const text = await state.innerText();
    await expect(state).toContainText('2 · TP 2 · PP 1 · DP 1');
    await expect(state).toContainText('nobody');
    await run.remote.claim('Ada');
    await run.remote.ask('control.pause', {});
    const paused = await run.pausedAfter();
    await expect(state).toContainText('Ada');
    const times = (await run.scalars()).map(({ step_ms: time }) => time / 1000);
    const left = 1000 - Number(/(\d+) of/.exec(text)?.[1]);
    expect(secondsIn(text)).toBeGreaterThan(left * Math.min(...times) - 1);
    expect(secondsIn(text)).toBeLessThan(left * Math.max(...times) + 1);
    await page.reload();
    await expect(state).toContainText(`${paused} of 1 000 · ${Math.floor(paused / 10)} %`);
    await expect(state).toContainText('Hub keeps');
    await expect(state).toContainText(`steps 1 to ${paused}`);
    await expect(page.getByTestId('chip')).toHaveText(`paused after step ${paused}`);
    await idle(page);
    await whileStuck(page, () => run.stepAs('Ada', 4));
    const lost = await droppedForPage(run);
    expect(lost).toBeGreaterThan(0);
    await expect(state).toContainText(`${lost} here, 0 at the trainer`);
    await expect(state).toContainText(`entry 1, MLP1: ${lost}`);
    await state.getByText('Configuration').click();
    await expect(state).toContainText('text.txt');
  });
});

test.describe('a run with an alarm', () => {
  // The rate of step n is n / 100 of the highest.
  test.use({ flags: ['--lr', '0.01', '--lr-warmup-iters', '100'] });
  const setAlarm = (run: RealRun, step: number): Promise<unknown> =>
    run.remote.ask('alarms.set', {
      ...{ name: 'fast', scalar: 'lr', test: 'above', value: (step - 0.5) / 10_000 },
    });

  const plan = /1 ?Plan 2: MLP1 every 1 → 2.*Bob/;
  const atFirst = [/Control is free/, /alarm fast set.*Bob/, /Bob took control/];

  async function prepareAsBob(run: RealRun): Promise<void> {
    const [hidden, mlp, tokens] = run.plan.entries;
    await run.remote.ask('control.claim', { name: 'Bob' });
    const entries = [hidden, { ...mlp, every: 2 }, tokens];
    await run.remote.ask('plan.set', { plan: { entries } });
    await setAlarm(run, 2);
    await run.remote.release();
  }

  /** Resolves when the page has read in the trail that somebody took control from now on. */
  async function claimIsRead(page: Page): Promise<void> {
    const now = Date.now() * 1e6;
    await page.waitForResponse(async (response) => {
      if (!response.url().includes('history/events')) return false;
      const lines = (await response.json()) as { kind: string; time_ns: number }[];
      return lines.some(({ kind, time_ns: time }) => kind === 'control.claim' && time > now);
    });
  }

  test('events come from the trail and as they happen, each once, with who asked', async ({
    page,
    run,
  }) => {
    await prepareAsBob(run);
    await visit(page, run, 'tab=overview', 'start');
    const patience = { timeout: 5000 };
    await expect(events(page)).toContainText([plan, ...atFirst], patience);
    await page.getByTestId('start').first().click();
    await expect.poll(() => run.step).toBeGreaterThan(2);
    await page.getByTestId('pause').click();
    const paused = await run.pausedAfter();
    const me = run.holder ?? '';
    expect(me).toMatch(/^viewer v\d+$/);
    const all = [
      // The trail is read again a moment later, and then the asker of the pause is known.
      new RegExp(`${paused}.*Paused.*${me}`),
      ...[/2.*alarm fast: lr is above/, plan, /Training began/],
      ...[new RegExp(`${me} took control`), ...atFirst],
    ];
    await expect(events(page)).toContainText(all, patience);
    const isRead = claimIsRead(page);
    await killHub(run, async () => {
      await expect(page.getByTestId('chip')).toHaveAttribute('data-word', 'reconnecting');
    });
    await expect(page.getByTestId('chip')).toHaveText(/paused/, patience);
    await isRead;
    await idle(page);
    // The page has taken back the control that it had.
    await expect(events(page)).toContainText([/viewer v\d+ took control/, ...all]);
    await events(page).last().getByRole('button').click();
    await expect(page.getByTestId('shown-step')).toHaveText('step 1');
  });

  test('an event is a mark on every time axis, until they are switched off', async ({
    page,
    run,
  }) => {
    await run.remote.claim('Ada');
    await setAlarm(run, 11);
    await run.stepAs('Ada', 21);
    await openOverview(page, run, '&smooth=0');
    const message = 'alarm fast: lr is above 0.00105 at step 11: 0.0011';
    await expect(events(page).filter({ hasText: message })).toHaveCount(1);
    await idle(page);
    const marked = [await picture(page, 0), await picture(page, 3)];
    const over = page.locator('.u-over').nth(1);
    const box = await over.boundingBox();
    if (box === null) throw new Error('no curve on the page');
    // Steps 1 to 21 fill the width: 11 lies in the middle.
    await over.hover({ position: { x: 0.5 * box.width, y: 40 } });
    await expect(page.getByTestId('mark-tip').nth(1)).toHaveText(`step 11: ${message}`);
    await over.hover({ position: { x: 0.7 * box.width, y: 40 } });
    await expect(page.getByTestId('mark-tip').nth(1)).toBeHidden();
    await page.getByTestId('events').click();
    await idle(page);
    expect(await picture(page, 0)).not.toBe(marked[0]);
    expect(await picture(page, 3)).not.toBe(marked[1]);
    expect(page.url()).toContain('events=0');
    await over.hover({ position: { x: 0.5 * box.width, y: 40 } });
    await expect(page.getByTestId('mark-tip').nth(1)).toBeHidden();
  });

  for (const colorScheme of ['dark', 'light'] as const) {
    test(`the overview in ${colorScheme}: a picture, and axe`, async ({ page, run }) => {
      await page.emulateMedia({ colorScheme });
      await run.remote.ask('control.claim', { name: 'Ada' });
      const { entries } = run.plan;
      await run.remote.ask('plan.set', { plan: { entries: entries.slice(1) } });
      await setAlarm(run, 11);
      await run.stepAs('Ada', 21);
      await openOverview(page, run);
      const all = [
        ...[/Stepped/, /alarm fast: lr/, /Plan 2/],
        ...[/Training began/, /alarm fast set/, /Ada took control/],
      ];
      await expect(events(page)).toContainText(all, { timeout: 5000 });
      await page.screenshot({ path: `test-results/overview-${colorScheme}.png` });
      expect(await seriousOf(page)).toEqual([]);
      const overflow = await page.evaluate(
        () => document.documentElement.scrollHeight - innerHeight,
      );
      expect(overflow).toBe(0);
      await page.setViewportSize({ width: 1920, height: 1080 });
      await page.getByTestId('hold').click();
      await idle(page);
      await page.screenshot({ path: `test-results/overview-${colorScheme}-wide.png` });
    });
  }
});

test('a held view stands still while the intake goes on', kSmoke, async ({ page, run }) => {
  await run.stepAs('Ada', 3);
  await openOverview(page, run);
  await expect(events(page).filter({ hasText: 'Stepped' })).toHaveCount(1);
  await page.locator('body').press('p');
  await idle(page);
  const before = [await picture(page, 0), await picture(page, 3)];
  const laterPlan = events(page).filter({ hasText: 'Plan 2' });
  const [first] = run.plan.entries;
  await run.remote.ask('plan.set', { plan: { entries: [first] } });
  await run.stepAs('Ada', 7);
  await expect(page.getByTestId('held')).toHaveText('7 new steps since');
  // The trail is read again a moment later.
  await page.waitForResponse(/history\/events/);
  await idle(page);
  expect([await picture(page, 0), await picture(page, 3)]).toEqual(before);
  await expect(laterPlan).toHaveCount(0);
  await expect(page.getByTestId('shown-step')).toHaveText('step 3');
  await expect(page.getByTestId('chip')).toHaveText('paused after step 10');
  await expect(page.getByTestId('step')).toHaveText(/10/);
  expect(await scalarsOn(page)).toBe(10);
  expect(page.url()).toContain('hold=3');
  await page.getByTestId('hold').click();
  await expect(page.getByTestId('shown-step')).toHaveText('step 10');
  await idle(page);
  expect(await picture(page, 0)).not.toBe(before[0]);
  await expect(laterPlan).toHaveCount(1);
  expect(page.url()).not.toContain('hold');
});

test.describe('a run of four steps', () => {
  test.use({ flags: ['--train-iters', '4', '--eval-interval', '2', '--eval-iters', '1'] });

  test('the end of a run is told, with the command that replays it', async ({ page, run }) => {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await run.stepAs('Ada', 2);
    await openOverview(page, run);
    await expect(page.getByTestId('run-end')).toHaveCount(0);
    void run.remote.ask('control.step', { count: 2 });
    const banner = page.getByTestId('run-end');
    await expect(banner).toContainText('The run ended at step 4');
    const { step, loss, valid_loss: valid } = run.remote.told('step') as Record<string, number>;
    expect(step).toBe(4);
    await expect(banner).toContainText(`loss ${loss.toPrecision(4)}`);
    await expect(banner).toContainText(`valid ${valid.toPrecision(4)}`);
    await banner.getByTestId('copy').click();
    await expect(banner.getByTestId('copy')).toHaveText('Copied');
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(
      'tensor-tracer replay run/run.ttrec',
    );
    await expect(page.getByTestId('chip')).toHaveText('ended at step 4, hub closed');
    await expect(banner).toBeVisible();
    await page.screenshot({ path: 'test-results/ended.png' });
  });
});

test('axes, smoothing, marks and theme are remembered for the next visit', async ({
  page,
  recorded,
}) => {
  await page.emulateMedia({ colorScheme: 'light' });
  await openRecorded(page, recorded);
  const ground = (): Promise<string> =>
    page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.getByTestId('smoothing').fill('0.3');
  await page.getByTestId('log-x').click();
  await page.getByTestId('events').click();
  await page.getByTestId('theme').click();
  await page.getByTestId('theme').click();
  await expect(page.getByTestId('theme')).toHaveText('dark theme');
  expect(await ground()).not.toBe(light);
  await page.goto(recorded.at('tab=overview&logx=0'));
  await expect(page.getByTestId('smoothing')).toHaveValue('0.3');
  await expect(page.getByTestId('events')).toHaveAttribute('aria-pressed', 'false');
  await expect(page.getByTestId('log-x')).toHaveAttribute('aria-pressed', 'false');
  expect(await ground()).not.toBe(light);
  await page.getByTestId('theme').click();
  await expect(page.getByTestId('theme')).toHaveText('auto theme');
  expect(await ground()).toBe(light);
});

test('a zoom is shared by all curves, stands in the address and moves by keys', async ({
  page,
  recorded,
}) => {
  await openRecorded(page, recorded, '&zoom=5-25');
  await expect(page.getByTestId('reset-zoom')).toHaveCount(4);
  const curve = page.getByRole('img', { name: 'Learning rate by step' });
  await curve.focus();
  await curve.press('Shift+ArrowRight');
  await idle(page);
  expect(page.url()).toContain('zoom=8-28');
  await curve.press('+');
  await idle(page);
  expect(page.url()).toContain('zoom=11-25');
  await advance(page, recorded, 5);
  await expect(page.getByTestId('shown-step')).toHaveText('step 35');
  await idle(page);
  expect(page.url()).toContain('zoom=11-25');
  await page.getByTestId('reset-zoom').first().click();
  await expect(page.getByTestId('reset-zoom')).toHaveCount(0);
});

/** How many pixels of a curve's own colour stand in the column of a step. */
async function inkAt(
  page: Page,
  index: number,
  color: string,
  zoom: readonly [number, number],
  step: number,
): Promise<number> {
  return page
    .locator('.uplot')
    .nth(index)
    .evaluate(
      (root, { color, zoom, step }) => {
        const canvas = root.querySelector('canvas');
        const over = root.querySelector<HTMLElement>('.u-over');
        const context = canvas?.getContext('2d');
        if (!canvas || !over || !context) throw new Error('no curve');
        const ratio = canvas.width / canvas.clientWidth;
        const part = (step - zoom[0]) / (zoom[1] - zoom[0]);
        const x = Math.round((over.offsetLeft + part * over.clientWidth) * ratio);
        const probe = document.createElement('i');
        probe.style.color = `var(${color})`;
        document.body.append(probe);
        const wanted = getComputedStyle(probe).color.match(/\d+/g)?.map(Number) ?? [];
        probe.remove();
        const { data } = context.getImageData(x, 0, 1, canvas.height);
        let count = 0;
        for (let i = 0; i < data.length; i += 4) {
          if (wanted.every((each, k) => Math.abs(each - data[i + k]) < 24)) count += 1;
        }
        return count;
      },
      { color, zoom, step },
    );
}

test('steps that were missed while the hub was away are a gap', async ({ page, run }) => {
  await run.stepAs('Ada', 3);
  await run.scalars();
  // What the hub has not written down is lost with it.
  const lock = await lockRecording(run);
  await run.stepAs('Ada', 5);
  await killHub(run, () => lock.release());
  await run.stepAs('Ada', 4);
  const kept = (await run.scalars()).map(({ step }) => step);
  expect(kept).toEqual([1, 2, 3, 9, 10, 11, 12]);
  await page.goto(run.at('tab=overview&zoom=1-12&events=0'));
  await expect.poll(() => scalarsOn(page)).toBe(kept.length);
  await idle(page);
  const ink = await Promise.all(
    [2, 5, 7, 10].map((step) => inkAt(page, 2, '--rate', [1, 12], step)),
  );
  expect(ink.map((count) => count > 0)).toEqual([true, false, false, true]);
});

test.describe('a long run', () => {
  const kSteps = 1500;
  test.use({ flags: kFast });

  test('of very many steps in one pixel the readout tells the one under the mouse', async ({
    page,
    run,
  }) => {
    test.slow();
    const scalars = await run.doSteps(kSteps);
    await page.goto(run.at('tab=overview&smooth=0'));
    await expect.poll(() => scalarsOn(page)).toBe(kSteps);
    const over = page.locator('.u-over').nth(1);
    const box = await over.boundingBox();
    if (box === null) throw new Error('no curve on the page');
    const perPixel = (kSteps - 1) / box.width;
    expect(perPixel).toBeGreaterThan(3);
    await over.hover({ position: { x: box.width / 3, y: 30 } });
    await idle(page);
    const step = await valueIn(page, 'gradNorm-readout', /step (\d+)/);
    const left = await page
      .locator('.u-cursor-x')
      .nth(1)
      .evaluate((line) => new DOMMatrix(getComputedStyle(line).transform).m41);
    expect(Math.abs(step - (1 + perPixel * left))).toBeLessThan(perPixel);
    expect(await valueIn(page, 'gradNorm-readout', /step \d+\s+(\S+)/)).toBe(
      shown(scalars[step - 1].grad_norm),
    );
    await page.screenshot({ path: 'test-results/overview-dense.png' });
  });
});
