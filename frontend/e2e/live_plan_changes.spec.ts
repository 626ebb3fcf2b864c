import { expect, type Page, test } from '@playwright/test';
import { spawn } from 'node:child_process';
import { release } from './live_support.ts';
import { addressOf, idle, kNightly } from './support.ts';

// The plan of a real run changes 20 times. Every curve whose entry holds the same numbers is whole: live, after a
// reload and in the replay. TT_RECORDING: the file that the run of TT_PAGE_URL writes; TT_PROGRAM: the program
// that replays it.

const kPatience = { timeout: 120_000 };
const kChanges = 20;
const kStats = { point: 'HiddenStates', compressor: { kind: 'stats' } };
const kName = 'HiddenStates · stats';
const kFollowed = {
  point: 'HiddenStates',
  compressor: { kind: 'projection', vectors: ['direction'] },
};
const kFollowedName = 'HiddenStates · projection';
const kTokens = { point: 'InputTokens' };
const kOthers = ['QKV', 'MLP1', 'MLP2', 'MLPActivation'];

/** The plan after a number of changes. The statistics and the projection stay, at changing positions in the plan. */
function planAfter(changes: number): readonly object[] {
  const other = {
    point: kOthers[changes % kOthers.length],
    compressor: { kind: 'tile', tiles: 8 },
  };
  const changing = { point: 'ResidualMid', rows: 1 + (changes % 3), compressor: { kind: 'stats' } };
  const often = changes % 5 === 4 ? { ...kStats, layers: '1-3' } : kStats;
  return changes % 2 === 0
    ? [kTokens, often, changing, other, kFollowed]
    : [changing, kFollowed, other, kTokens, often];
}

interface Set {
  readonly number: number;
  readonly step: number;
}

async function setPlan(page: Page, entries: readonly object[]): Promise<Set> {
  const outcome = await page.evaluate((plan) => window.__tt?.app.control.setPlan(plan), {
    entries,
  });
  const { ok, value } = outcome as { readonly ok: boolean; readonly value: Set };
  expect(ok, JSON.stringify(outcome)).toBe(true);
  return value;
}

async function stepOf(page: Page): Promise<number> {
  return (await page.evaluate(() => window.__tt?.app.newestStep)) ?? 0;
}

type Values = Record<string, number | null | undefined>;

/** The curve that the page shows of the entry: the mean in layer 1, by step. */
async function shown(page: Page, first: number, last: number): Promise<Values> {
  await idle(page);
  const history = await page.evaluate(() => window.__tt?.app.frame?.history);
  const pairs = (history?.steps ?? []).map(
    (step, at) => [step, history?.lines.mean[0][at]] as const,
  );
  return Object.fromEntries(pairs.filter(([step]) => step >= first && step <= last));
}

/** The same from the records of the hub's history, read here: mean of layer 1, by step. */
async function recorded(page: Page, first: number, last: number): Promise<Record<string, number>> {
  const pairs = await page.evaluate(
    async ([from, to]) => {
      const found: [number, number][] = [];
      let after: string | null = '';
      while (after !== null) {
        const query = `first=${from}&last=${to}&point=HiddenStates&layers=1${after}`;
        const response: Response = await fetch(`history/records?${query}`);
        if (!response.ok) throw new Error(await response.text());
        const view = new DataView(await response.arrayBuffer());
        for (let at = 0; at < view.byteLength;) {
          const bytes = Number(view.getBigUint64(at + 88, true));
          const isStats = view.getUint8(at + 65) === 3 && view.getUint32(at + 44, true) === 0;
          const step = Number(view.getBigUint64(at + 24, true));
          if (isStats) found.push([step, view.getFloat32(at + 128 + 4, true)]);
          at += 128 + 8 * Math.ceil(bytes / 8);
        }
        const next = response.headers.get('TT-Next');
        after = next === null ? null : `&after=${next}`;
      }
      return found;
    },
    [first, last] as const,
  );
  return Object.fromEntries(pairs);
}

/** The curve of the projection, which has a value at every step; then the statistics are shown again. */
async function followed(page: Page, first: number, last: number): Promise<Values> {
  const point = page.getByTestId('point');
  await point.selectOption({ label: kFollowedName });
  await expect(page.getByTestId('projection-map')).toBeVisible(kPatience);
  await expect
    .poll(async () => Object.keys(await shown(page, first, last)).length, kPatience)
    .toBe(last - first + 1);
  const values = await shown(page, first, last);
  expect(Object.values(values).every((value) => Number.isFinite(value))).toBe(true);
  await point.selectOption({ label: kName });
  await expect(page.getByTestId('stats-table')).toBeVisible(kPatience);
  await expect(page).toHaveURL(/stats/);
  return values;
}

/** The steps whose loss the page has. */
async function scalars(page: Page, first: number, last: number): Promise<readonly number[]> {
  const steps = await page.evaluate(() => window.__tt?.app.series.all.map(({ step }) => step));
  return (steps ?? []).filter((step) => step >= first && step <= last);
}

async function planMarks(page: Page): Promise<readonly number[]> {
  return page.evaluate(
    () =>
      window.__tt?.app.happened.filter(({ kind }) => kind === 'plan').map(({ step }) => step) ?? [],
  );
}

/** Moves over the curves until the mark of a plan is told. */
async function expectMark(page: Page): Promise<void> {
  const chart = page.locator('.u-over').last();
  const box = await chart.boundingBox();
  const tip = page.getByTestId('mark-tip').filter({ hasText: /Plan \d+: / });
  for (let x = 2; x < (box?.width ?? 0); x += 4) {
    await chart.hover({ position: { x, y: 20 } });
    if (await tip.first().isVisible()) return;
  }
  throw new Error('no mark of a plan');
}

test.afterEach(({ page }) => release(page));

test('curves go on through 20 changes of the plan', kNightly, async ({ page, context }) => {
  test.setTimeout(900_000);
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(process.env.TT_PAGE_URL ?? '');
  await expect(page.getByTestId('chip')).toHaveText(/live|lagging/, kPatience);
  const before = await page.evaluate(() => window.__tt?.app.plan?.entries ?? []);
  const sets = [await setPlan(page, planAfter(0))];
  const first = sets[0].step;
  await page.getByTestId('point').selectOption({ label: kName });
  await expect(page.getByTestId('stats-table')).toBeVisible(kPatience);
  for (let change = 1; change <= kChanges; change++) {
    sets.push(await setPlan(page, planAfter(change)));
    const { step } = sets[change];
    await expect.poll(() => stepOf(page), kPatience).toBeGreaterThanOrEqual(step);
  }
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveAttribute('data-word', 'paused', kPatience);
  const last = await stepOf(page);
  const steps = Array.from({ length: last - first + 1 }, (_, i) => first + i);

  await test.step('as it happens', async () => {
    await expect
      .poll(async () => Object.keys(await recorded(page, first, last)), kPatience)
      .toEqual(steps.map(String));
    const truth = await recorded(page, first, last);
    await expect.poll(() => shown(page, first, last), kPatience).toEqual(truth);
    expect(await planMarks(page)).toEqual(expect.arrayContaining(sets.map(({ step }) => step)));
    await expectMark(page);
    expect(await scalars(page, first, last)).toEqual(steps);
    await page.screenshot({ path: 'test-results/live-plan-changes.png' });
  });
  const truth = await recorded(page, first, last);
  const along = await followed(page, first, last);

  await test.step('after a reload', async () => {
    await page.reload();
    await expect(page.getByTestId('stats-table')).toBeVisible(kPatience);
    await expect.poll(() => shown(page, first, last), kPatience).toEqual(truth);
    expect(await planMarks(page)).toEqual(expect.arrayContaining(sets.map(({ step }) => step)));
    await expectMark(page);
    expect(await followed(page, first, last)).toEqual(along);
    await expect.poll(() => scalars(page, first, last), kPatience).toEqual(steps);
  });

  await test.step('in the replay', async () => {
    const line = ['replay', process.env.TT_RECORDING ?? '', '--port', '0', '--auth', 'none'];
    const replay = spawn(process.env.TT_PROGRAM ?? '', [...line, '--paused']);
    try {
      const other = await context.newPage();
      await other.goto(`${await addressOf(replay)}?point=${encodeURIComponent(kName)}`);
      await expect(other.getByTestId('chip')).toHaveText('replay, paused', kPatience);
      await other.getByTestId('seek').fill(String(last));
      await expect(other.getByTestId('stats-table')).toBeVisible(kPatience);
      await expect.poll(() => shown(other, first, last), kPatience).toEqual(truth);
      expect(await planMarks(other)).toEqual(expect.arrayContaining(sets.map(({ step }) => step)));
      expect(await followed(other, first, last)).toEqual(along);
      await expect.poll(() => scalars(other, first, last), kPatience).toEqual(steps);
      await other.close();
    } finally {
      replay.kill('SIGTERM');
    }
  });
  await page.getByTestId('pause').click();

  await test.step('a former plan is brought back', async () => {
    await page.getByTestId('tab-plan').click();
    const former = page.getByTestId('former-plans');
    await expect(former.getByRole('listitem').nth(kChanges - 1)).toBeAttached();
    await former.getByRole('button', { name: `Bring back plan ${sets[3].number}` }).click();
    await page.screenshot({ path: 'test-results/live-former-plans.png' });
    await page.getByTestId('apply').click();
    await expect(page.getByTestId('plan-outcome')).toHaveText(/No changes/, kPatience);
    const points = await page.evaluate(
      () => window.__tt?.app.plan?.entries.map((entry) => (entry as { point: string }).point) ?? [],
    );
    expect(points).toEqual(planAfter(3).map((entry) => (entry as { point: string }).point));
  });

  await test.step('a point that is not traced is a click away, and so is the way back', async () => {
    await page.getByTestId('tab-tensors').click();
    await page.getByTestId('point').selectOption({ label: 'Query' });
    const note = page.getByTestId('toast').filter({ hasText: /Query is traced from step \d+ on/ });
    await expect(note).toBeVisible(kPatience);
    await expect(page.getByTestId('point')).toHaveValue('Query', kPatience);
    await page.screenshot({ path: 'test-results/live-traced.png' });
    await note.getByRole('button', { name: 'Undo' }).click();
    await expect(page.getByTestId('point')).toHaveValue(kName, kPatience);
    await page.keyboard.press('Control+k');
    await page.keyboard.type('point query');
    const option = page.getByTestId('palette').getByRole('option').first();
    await expect(option).toContainText('Point Query: not traced, trace it');
    await page.screenshot({ path: 'test-results/live-palette.png' });
    await page.keyboard.press('Enter');
    await expect(page.getByTestId('point')).toHaveValue('Query', kPatience);
    await expect(page.getByTestId('tile-map')).toBeVisible(kPatience);
  });
  await setPlan(page, before as readonly object[]);
});
