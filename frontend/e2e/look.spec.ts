import { expect, type Page } from '@playwright/test';
import { kLiveViews, kRecordedViews, showLive, showRecorded } from './all_views.ts';
import { test } from './recorded.ts';
import { advance, openAfter } from './real_run.ts';
import { idle } from './support.ts';

// Panels that fold and resize, the one large number, and empty states that act.

test('the curves are resized by the mouse and by keys, which is remembered', async ({
  page,
  run,
}) => {
  await openAfter(page, run, 5);
  await expect(page.locator('.uplot').first()).toBeVisible();
  const curves = page.locator('.split > .panel');
  const width = async (): Promise<number> => (await curves.boundingBox())?.width ?? 0;
  const before = await width();
  const grip = page.getByTestId('split-curves');
  const box = await grip.boundingBox();
  if (box === null) throw new Error('no grip');
  await page.mouse.move(box.x + box.width / 2, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 + 120, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await expect.poll(width).toBeGreaterThan(before + 90);
  const wide = await width();
  await page.reload();
  await idle(page);
  await expect.poll(async () => Math.abs((await width()) - wide)).toBeLessThan(3);
  await grip.focus();
  await page.keyboard.press('ArrowLeft');
  await expect.poll(width).toBeLessThan(wide - 10);
  await expect(grip).toHaveAttribute('aria-valuenow', /^\d+$/);
});

test('the curves and each panel fold, and stay so', async ({ page, run }) => {
  await openAfter(page, run, 5);
  await expect(page.locator('.uplot')).toHaveCount(2);
  await page.getByTestId('split-curves').focus();
  await page.keyboard.press('Enter');
  await expect(page.locator('.uplot')).toHaveCount(0);
  await expect(page.getByTestId('fold-curves')).toHaveAttribute('aria-expanded', 'false');
  await page.screenshot({ path: 'test-results/folded.png' });
  await page.reload();
  await idle(page);
  await expect(page.locator('.uplot')).toHaveCount(0);
  await page.getByTestId('fold-curves').click();
  await expect(page.locator('.uplot')).toHaveCount(2);
  await page.getByRole('button', { name: 'Fold Grad norm' }).click();
  await expect(page.locator('.uplot')).toHaveCount(1);
  await page.reload();
  await idle(page);
  await expect(page.getByRole('button', { name: 'Show Grad norm' })).toBeVisible();
  expect(new URL(page.url()).search).toBe('');
});

type Part = readonly [view: string, part: string, holds: string];
const kLiveSplits: readonly Part[] = [
  ['plan', 'presets', '[data-testid="plan-presets"]'],
  ['plan', 'entry', '[data-testid="entry-form"]'],
  ['interventions', 'programs', '[data-testid="revert-all"]'],
  ['interventions', 'preview', '[aria-label="Preview"]'],
];
const kRecordedSplits: readonly Part[] = [
  ['predictions', 'predictions', '[data-testid="predictions"]'],
  ['statistics', 'histogram', '[data-testid="histogram"]'],
  ['lens', 'lens', '[aria-label="Predictions of the chosen cell"]'],
  ['pinned cell', 'pin', '[data-testid="pin"]'],
];

async function checkSplit(page: Page, split: string, holds: string): Promise<void> {
  const grip = page.getByTestId(`split-${split}`);
  const held = page.locator(holds);
  const width = async (): Promise<number> => (await held.boundingBox())?.width ?? 0;
  const before = await width();
  await grip.focus();
  const edge = (await grip.boundingBox())?.x ?? 0;
  const outwards = edge > ((await held.boundingBox())?.x ?? 0) ? 'ArrowRight' : 'ArrowLeft';
  for (let i = 0; i < 3; i++) await page.keyboard.press(outwards);
  await expect.poll(async () => (await width()) - before).toBeGreaterThan(15);
  const after = await width();
  await page.reload();
  await idle(page);
  await expect.poll(async () => Math.abs((await width()) - after)).toBeLessThan(3);
  await page.getByTestId(`fold-${split}`).click();
  await expect(held).toHaveCount(0);
  await page.reload();
  await idle(page);
  await expect(page.getByTestId(`fold-${split}`)).toHaveAttribute('aria-expanded', 'false');
  await expect(held).toHaveCount(0);
  await page.getByTestId(`fold-${split}`).click();
  await expect(held).toBeVisible();
}

const splitTitle = ([view, split]: Part): string =>
  `in ${view}, the side ${split} resizes and folds, and stays so`;

for (const part of kLiveSplits) {
  test(splitTitle(part), async ({ page, run }) => {
    await showLive(page, run, part[0]);
    await checkSplit(page, part[1], part[2]);
  });
}

for (const part of kRecordedSplits) {
  test(splitTitle(part), async ({ page, recorded }) => {
    await showRecorded(page, recorded, part[0]);
    await checkSplit(page, part[1], part[2]);
  });
}

async function checkPanel(page: Page, panel: string, holds: string): Promise<void> {
  await page.getByRole('button', { name: `Fold ${panel}` }).click();
  await expect(page.getByTestId(holds)).toHaveCount(0);
  await page.reload();
  await page.getByRole('button', { name: `Show ${panel}` }).click();
  await expect(page.getByTestId(holds)).toBeVisible();
}

const kLivePanels: readonly Part[] = [
  ['plan', 'Presets', 'plan-presets'],
  ['plan', 'Former plans', 'former-plans'],
  ['interventions', 'In force', 'revert-all'],
];
for (const [view, panel, holds] of kLivePanels) {
  test(`in ${view}, the panel ${panel} folds, and stays so`, async ({ page, run }) => {
    await showLive(page, run, view);
    await checkPanel(page, panel, holds);
  });
}

test('in statistics, the panel of the table folds, and stays so', async ({ page, recorded }) => {
  await showRecorded(page, recorded, 'statistics');
  await checkPanel(page, 'Statistics of all numbers', 'stats-table');
});

test('the loss is the large number of every view, with its trend', async ({ page, run }) => {
  await openAfter(page, run, 115);
  const loss = page.getByTestId('loss');
  await expect(loss).toHaveText(/^\d\.\d{3,4}$/);
  await expect(page.getByTestId('loss-trend')).toHaveText(/^▼\s+\d+\.\d %$/);
  const size = await loss.evaluate((each) => Number.parseFloat(getComputedStyle(each).fontSize));
  const sizes = await page.evaluate(() =>
    [...document.querySelectorAll('body *')].map((each) =>
      Number.parseFloat(getComputedStyle(each).fontSize),
    ),
  );
  expect(size).toBe(Math.max(...sizes));
});

test('an entry that is off is switched on where its data are missed', async ({ page, run }) => {
  await run.setPlan({ point: 'MLP1', enabled: false, compressor: { kind: 'tile', tiles: 4 } });
  await page.goto(run.url);
  await expect(page.getByTestId('no-maps')).toContainText('The run is ready');
  await advance(page);
  await expect(page.getByTestId('no-maps')).toContainText('MLP1 is off');
  await page.getByRole('button', { name: 'Switch it on' }).click();
  await expect(page.getByTestId('no-maps')).toContainText('No data of MLP1 yet');
  expect(run.plan.entries[0].enabled).not.toBe(false);
  await advance(page);
  await expect(page.getByTestId('tile-map')).toBeVisible();
});

test('two equal sides lead to a comparison with the first step', async ({ page, recorded }) => {
  await page.goto(recorded.at('tab=compare'));
  await page.getByTestId('compare-first').click();
  await idle(page);
  await expect(page.getByTestId('compare-first')).toHaveCount(0);
  await expect(page.getByTestId('compare-note')).not.toContainText('A and B are the same');
});

/** The names of the buttons and fields that an ancestor without a scroll bar cuts off. */
async function cutControls(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const holderOf = (control: Element): Element | null => {
      for (let at = control.parentElement; at !== null; at = at.parentElement) {
        const { overflowX, overflowY } = getComputedStyle(at);
        if (/auto|scroll/.test(overflowX + overflowY)) return null;
        if (overflowX !== 'visible') return at;
      }
      return null;
    };
    const isCut = (control: Element): boolean => {
      const holder = holderOf(control)?.getBoundingClientRect();
      const box = control.getBoundingClientRect();
      if (holder === undefined || box.width === 0) return false;
      return box.left < holder.left - 1 || box.right > holder.right + 1;
    };
    return [...document.querySelectorAll('button, select, input')]
      .filter(isCut)
      .map((control) => control.getAttribute('aria-label') ?? control.textContent.trim());
  });
}

test('no view cuts a button or a field off', async ({ page, recorded }) => {
  test.slow();
  for (const [view] of kRecordedViews) {
    await showRecorded(page, recorded, view);
    expect(await cutControls(page), view).toEqual([]);
  }
});

test('no view of a run cuts a button or a field off', async ({ page, run }) => {
  for (const [view] of kLiveViews) {
    await showLive(page, run, view);
    expect(await cutControls(page), view).toEqual([]);
  }
});
