import AxeBuilder from '@axe-core/playwright';
import { expect, type Locator, type Page } from '@playwright/test';
import { gradNormAt, lossAt } from './fake_data.ts';
import type { FakeHub } from './fake_hub.ts';
import { idle, kSmoke, test } from './support.ts';

async function openOverview(page: Page, hub: FakeHub, query = ''): Promise<void> {
  await page.goto(hub.url.replace('/#', `/?tab=overview${query}#`));
  await expect(page.getByTestId('shown-step')).toHaveText(/step \d/);
  await expect.poll(() => page.evaluate(() => window.__tt?.app.series.all.length)).toBe(hub.step);
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

test('four curves show the run, and the readouts tell the true numbers', async ({ page, hub }) => {
  await openOverview(page, hub);
  await expect(page.locator('.uplot')).toHaveCount(4);
  expect(await valueIn(page, 'loss-readout', /train\s+(\S+)/)).toBe(
    Number(lossAt(120).toPrecision(4)),
  );
  expect(await valueIn(page, 'loss-readout', /unigram\s+(\S+)/)).toBe(3.19);
  const box = await page.locator('.u-over').first().boundingBox();
  if (box === null) throw new Error('no curve on the page');
  await page.mouse.move(box.x + box.width * 0.4, box.y + box.height / 2);
  await idle(page);
  const step = await valueIn(page, 'loss-readout', /step (\d+)/);
  expect(step).toBeCloseTo(1 + 0.4 * 119, -1);
  expect(await valueIn(page, 'loss-readout', /train\s+(\S+)/)).toBe(
    Number(lossAt(step).toPrecision(4)),
  );
  expect(await valueIn(page, 'gradNorm-readout', /step \d+\s+(\S+)/)).toBe(
    Number(gradNormAt(step).toPrecision(4)),
  );
  expect(await valueIn(page, 'rate-readout', /step \d+\s+(\S+)/)).toBe(6e-4);
  const cursors = await page
    .locator('.u-cursor-x')
    .evaluateAll((all) => all.map((each) => new DOMMatrix(getComputedStyle(each).transform).m41));
  expect(Math.max(...cursors) - Math.min(...cursors)).toBeLessThan(2);
});

test('the state of run, ranks and hub is told', kSmoke, async ({ page, hub }) => {
  await openOverview(page, hub);
  const state = page.getByTestId('run-state');
  await expect(state).toContainText('120 of 300 · 40');
  // 180 steps of 380 ms.
  await expect(state).toContainText(/about 1.min 08.s/);
  await expect(state).toContainText('2 · TP 2 · PP 1 · DP 1');
  await expect(state).toContainText('Hub keeps');
  await expect(state).toContainText('steps 1 to 120');
  await expect(state).toContainText('nobody');
  hub.setHolder({ session: 'v99', name: 'Ada' });
  hub.broadcast('dropped', { records: 3, where: 'viewer', entries: { '0': 3 } });
  await expect(state).toContainText('Ada');
  await expect(state).toContainText('3 here, 0 at the trainer');
  await expect(state).toContainText('entry 1, HiddenStates: 3');
  await state.getByText('Configuration').click();
  await expect(state).toContainText('configs/runs/demo.json');
});

test('each rank that sends has a line: its step, its delay, its lost records', async ({
  page,
  hub,
}) => {
  hub.stages = 2;
  await openOverview(page, hub);
  const ranks = page.getByLabel('Sending ranks').locator('dd');
  const told = { timeout: 5000 };
  await expect(ranks).toHaveText(['step 120', 'step 120'], told);
  hub.advance();
  await expect(ranks).toHaveText([/^step 121 · up to date/, /^step 121 · up to date/], told);
  hub.silent.add(1);
  for (let i = 0; i < 4; i++) hub.advance();
  await expect(ranks).toHaveText(
    [/^step 125 · up to date · \d+.ms$/, /^step 121 · 4 behind/],
    told,
  );
  await expect(ranks.nth(1)).toHaveClass(/warn/);
  hub.silent.clear();
  hub.advance();
  await expect(ranks.nth(1)).toHaveText(/^step 126 · up to date/, told);
  hub.silent.add(1);
  hub.advance();
  hub.silent.clear();
  hub.advance();
  // Of layers 3 and 4, HiddenStates and MLP1.
  await expect(ranks.nth(1)).toHaveText(/^step 128 · up to date · \d+.ms · 4 lost$/, told);
  await expect(ranks.nth(0)).not.toContainText('lost');
});

test('a stage without a leader is missing until it has one', async ({ page, hub }) => {
  hub.stages = 2;
  await openOverview(page, hub);
  const ranks = page.getByLabel('Sending ranks').locator('dd');
  await expect(ranks).toHaveCount(2, { timeout: 5000 });
  const parts = (connected: boolean): unknown => ({
    parts: [
      { stage: 0, rank: 0, connected: true },
      { stage: 1, rank: 8, connected },
    ],
  });
  hub.broadcast('parts', parts(false));
  await expect(ranks.first()).toHaveText('missing · rank 8');
  await expect(ranks.first()).toHaveClass(/warn/);
  hub.broadcast('parts', parts(true));
  await expect(ranks).toHaveCount(2);
});

test('events come from the trail and as they happen, each once, with who asked', async ({
  page,
  hub,
}) => {
  const plan = { ...hub.plan, number: 1 };
  hub.trail.add('state', 0, { phase: 'training', step: 0 });
  hub.trail.add('plan', 40, { plan: { ...plan, number: 7 }, step: 40 });
  hub.trail.add(
    'plan.set',
    40,
    { result: { plan: { ...plan, number: 7 }, step: 40 } },
    'v5',
    'Bob',
  );
  await openOverview(page, hub);
  await expect(events(page)).toHaveCount(2);
  await expect(events(page).first()).toContainText('Plan 7: HiddenStates, MLP1, InputTokens');
  await expect(events(page).first()).toContainText('Bob');
  await page.getByTestId('pause').click();
  await expect(events(page)).toHaveCount(4);
  await expect(events(page).first()).toContainText('Paused');
  // The trail is read again a moment later, and then the asker of the pause is known.
  await expect(events(page).first()).toContainText(/viewer v\d/, { timeout: 5000 });
  await expect(events(page)).toHaveCount(4);
  hub.broadcast('log', { level: 'error', message: 'the disk is full' });
  await expect(events(page).first()).toContainText('the disk is full');
  const port = hub.port;
  await hub.stop();
  await hub.start(port);
  await expect(page.getByTestId('chip')).toHaveText(/paused/, { timeout: 5000 });
  await page.waitForResponse(/history\/events/);
  await idle(page);
  // The page has taken back the control that it had.
  await expect(events(page).first()).toContainText('viewer v2 took control');
  await expect(events(page)).toHaveCount(6);
  await events(page).last().getByRole('button').click();
  await expect(page.getByTestId('shown-step')).toHaveText('step 1');
});

test('an event is a mark on every time axis, until they are switched off', async ({
  page,
  hub,
}) => {
  hub.trail.add('log', 60, { level: 'warning', message: 'a rank is slow' });
  await openOverview(page, hub, '&smooth=0');
  await expect(events(page)).toHaveCount(1);
  await idle(page);
  const marked = [await picture(page, 0), await picture(page, 3)];
  const over = page.locator('.u-over').nth(1);
  const box = await over.boundingBox();
  if (box === null) throw new Error('no curve on the page');
  // Steps 1 to 120 fill the width: 60 lies at 59 / 119 of it.
  await over.hover({ position: { x: (59 / 119) * box.width, y: 40 } });
  await expect(page.getByTestId('mark-tip').nth(1)).toHaveText('step 60: a rank is slow');
  await over.hover({ position: { x: 0.7 * box.width, y: 40 } });
  await expect(page.getByTestId('mark-tip').nth(1)).toBeHidden();
  await page.getByTestId('events').click();
  await idle(page);
  expect(await picture(page, 0)).not.toBe(marked[0]);
  expect(await picture(page, 3)).not.toBe(marked[1]);
  expect(page.url()).toContain('events=0');
  await over.hover({ position: { x: (59 / 119) * box.width, y: 40 } });
  await expect(page.getByTestId('mark-tip').nth(1)).toBeHidden();
});

test('a held view stands still while the intake goes on', kSmoke, async ({ page, hub }) => {
  await openOverview(page, hub);
  await page.locator('body').press('p');
  await idle(page);
  const before = [await picture(page, 0), await picture(page, 3)];
  for (let i = 0; i < 7; i++) hub.advance();
  hub.broadcast('log', { level: 'warning', message: 'later' });
  await expect(page.getByTestId('held')).toHaveText('7 new steps since');
  await idle(page);
  expect([await picture(page, 0), await picture(page, 3)]).toEqual(before);
  await expect(page.getByTestId('shown-step')).toHaveText('step 120');
  await expect(page.getByTestId('chip')).toHaveText('live');
  await expect(page.getByTestId('step')).toHaveText(/127/);
  expect(await page.evaluate(() => window.__tt?.app.series.all.length)).toBe(127);
  await expect(page.getByText('later')).toHaveCount(1); // In the status bar alone.
  expect(page.url()).toContain('hold=120');
  await page.getByTestId('hold').click();
  await expect(page.getByTestId('shown-step')).toHaveText('step 127');
  await idle(page);
  expect(await picture(page, 0)).not.toBe(before[0]);
  expect(page.url()).not.toContain('hold');
});

test('the end of a run is told, with the command that replays it', async ({ page, hub }) => {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await openOverview(page, hub);
  await expect(page.getByTestId('run-end')).toHaveCount(0);
  hub.setPhase('finished');
  const banner = page.getByTestId('run-end');
  await expect(banner).toContainText('The run ended at step 120');
  await expect(banner).toContainText(`loss ${lossAt(120).toPrecision(4)}`);
  await expect(banner).toContainText(`valid ${(lossAt(120) + 0.12).toPrecision(4)}`);
  await banner.getByTestId('copy').click();
  await expect(banner.getByTestId('copy')).toHaveText('Copied');
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(
    'tensor-tracer replay runs/demo/run.ttrec',
  );
  await hub.stop();
  await expect(page.getByTestId('chip')).toHaveText('ended at step 120, hub closed');
  await expect(banner).toBeVisible();
  await page.screenshot({ path: 'test-results/ended.png' });
});

test('axes, smoothing, marks and theme are remembered for the next visit', async ({
  page,
  hub,
}) => {
  await page.emulateMedia({ colorScheme: 'light' });
  await openOverview(page, hub);
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
  await page.goto(`http://127.0.0.1:${hub.port}/?tab=overview&logx=0`);
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
  hub,
}) => {
  await openOverview(page, hub, '&zoom=20-60');
  await expect(page.getByTestId('reset-zoom')).toHaveCount(4);
  const curve = page.getByRole('img', { name: 'Learning rate by step' });
  await curve.focus();
  await curve.press('Shift+ArrowRight');
  await idle(page);
  expect(page.url()).toContain('zoom=26-66');
  await curve.press('+');
  await idle(page);
  expect(page.url()).toContain('zoom=32-60');
  for (let i = 0; i < 5; i++) hub.advance();
  await expect(page.getByTestId('shown-step')).toHaveText('step 125');
  await idle(page);
  expect(page.url()).toContain('zoom=32-60');
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

test('steps that were missed while the hub was away are a gap', async ({ page, hub }) => {
  await openOverview(page, hub, '&zoom=110-130&events=0');
  const port = hub.port;
  await hub.stop();
  hub.step += 10;
  hub.firstKept = hub.step - 3;
  await hub.start(port);
  await expect(page.getByTestId('shown-step')).toHaveText('step 130', { timeout: 5000 });
  await idle(page);
  const ink = await Promise.all(
    [115, 122, 125, 128].map((step) => inkAt(page, 2, '--rate', [110, 130], step)),
  );
  expect(ink.map((count) => count > 0)).toEqual([true, false, false, true]);
});

test('of very many steps in one pixel the readout tells the one under the mouse', async ({
  page,
  hub,
}) => {
  hub.step = 6000;
  await openOverview(page, hub, '&smooth=0');
  const over = page.locator('.u-over').nth(1);
  const box = await over.boundingBox();
  if (box === null) throw new Error('no curve on the page');
  await over.hover({ position: { x: box.width / 3, y: 30 } });
  await idle(page);
  const step = await valueIn(page, 'gradNorm-readout', /step (\d+)/);
  const left = await page
    .locator('.u-cursor-x')
    .nth(1)
    .evaluate((line) => new DOMMatrix(getComputedStyle(line).transform).m41);
  expect(Math.abs(step - (1 + (5999 * left) / box.width))).toBeLessThan(5999 / box.width);
  expect(await valueIn(page, 'gradNorm-readout', /step \d+\s+(\S+)/)).toBe(
    Number(gradNormAt(step).toPrecision(4)),
  );
  await page.screenshot({ path: 'test-results/overview-dense.png' });
});

for (const colorScheme of ['dark', 'light'] as const) {
  test(`the overview in ${colorScheme}: a picture, and axe`, async ({ page, hub }) => {
    await page.emulateMedia({ colorScheme });
    const plan = { ...hub.plan, number: 2 };
    hub.trail.add('state', 0, { phase: 'training', step: 0 });
    hub.trail.add('control.claim', 38, { take_over: false }, 'v5', 'Ada');
    hub.trail.add('plan.set', 40, { result: { plan, step: 40 } }, 'v5', 'Ada');
    hub.trail.add('control.pause', 73, { result: { step: 73 } }, 'v5', 'Ada');
    hub.trail.add('control.continue', 73, { result: { step: 73 } }, 'v5', 'Ada');
    hub.trail.add('dropped', 90, { records: 12, where: 'trainer' });
    hub.trail.add('log', 101, { level: 'warning', message: 'the disk is nearly full' });
    await openOverview(page, hub);
    await expect(events(page)).toHaveCount(7);
    await page.screenshot({ path: `test-results/overview-${colorScheme}.png` });
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations.filter(
      ({ impact }) => impact === 'serious' || impact === 'critical',
    );
    const found = serious.flatMap(({ id, nodes }) =>
      nodes.map((node) => `${id}: ${String(node.target[0])} ${node.failureSummary ?? ''}`),
    );
    expect(found).toEqual([]);
    const overflow = await page.evaluate(() => document.documentElement.scrollHeight - innerHeight);
    expect(overflow).toBe(0);
    await page.setViewportSize({ width: 1920, height: 1080 });
    await page.getByTestId('hold').click();
    await idle(page);
    await page.screenshot({ path: `test-results/overview-${colorScheme}-wide.png` });
  });
}
