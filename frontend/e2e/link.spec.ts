import { writeFile } from 'node:fs/promises';
import { type BrowserContext, expect, type Page } from '@playwright/test';
import { farthest } from './png.ts';
import { kLayers, kTiles, kTokens, test } from './recorded.ts';
import { idle, spotOf } from './support.ts';

// UX-6: the copied link shows the same pixels in a browser that was never here.

const kPickWait = { timeout: 10_000 };

/** Pins a cell of a map with layers down. */
async function pinOn(page: Page, testid: string, row: number, col: number): Promise<void> {
  const map = page.getByTestId(testid);
  await map.click({ position: await spotOf(map, row, col, kLayers, kTokens) });
  await expect(page.getByTestId('pin')).toBeVisible();
}

/** States of the tabs, as a user reaches them. */
const kViews: readonly {
  readonly name: string;
  readonly reach: (page: Page) => Promise<void>;
}[] = [
  {
    name: 'overview',
    reach: async (page) => {
      await page.getByTestId('tab-overview').click();
      await page.getByRole('button', { name: 'log' }).first().click();
    },
  },
  {
    name: 'maps',
    reach: async (page) => {
      await page.getByTestId('layer').selectOption('3');
      await page.getByRole('button', { name: 'max |x|' }).click();
      await page.getByRole('button', { name: '99 %' }).click();
      await page.getByLabel('Lock the scale of the tile map').click();
    },
  },
  {
    name: 'all layers',
    reach: async (page) => {
      await page.getByRole('button', { name: 'all layers' }).click();
      await page.getByRole('button', { name: 'own ranges' }).click();
    },
  },
  {
    name: 'steps',
    reach: async (page) => {
      await page.getByRole('button', { name: 'over steps' }).click();
    },
  },
  {
    name: 'attention',
    reach: async (page) => {
      await page.getByTestId('point').selectOption('RawAttentionScore');
      await page.getByTestId('head').selectOption('2');
    },
  },
  {
    name: 'projection',
    reach: async (page) => {
      await page.getByTestId('point').selectOption('HiddenStates · probes · projection');
      await page.getByTestId('vector').selectOption('sycophancy');
      await page.getByRole('button', { name: 'mean', exact: true }).click();
    },
  },
  {
    name: 'a zoomed map',
    reach: async (page) => {
      await page.getByRole('application').nth(1).focus();
      await page.keyboard.press('+');
      await page.keyboard.press('Shift+ArrowRight');
      await expect(page).toHaveURL(/cols=/);
    },
  },
  {
    name: 'a pinned map',
    reach: async (page) => {
      const map = page.getByTestId('tile-map');
      await map.click({ position: await spotOf(map, 5, 17, kTiles, kTokens) });
      await expect(page.getByTestId('pin')).toBeVisible();
    },
  },
  {
    name: 'model',
    reach: async (page) => {
      await page.getByTestId('tab-model').click();
      await page.getByTestId('block').nth(3).click();
      await page.getByTestId('tab-model').click();
      await expect(page.getByTestId('block').nth(0)).toHaveAccessibleName(/RMS .* of Embedding/);
    },
  },
  {
    name: 'statistics',
    reach: async (page) => {
      await page.getByTestId('point').selectOption('HiddenStates · stats');
      await page.getByTestId('stats-table').getByTestId('sort-kurtosis').click();
      await page.getByTestId('layer').selectOption('4');
    },
  },
  {
    name: 'the lens',
    reach: async (page) => {
      await page.getByTestId('point').selectOption('LogitLens');
      await page.getByRole('button', { name: 'entropy', exact: true }).click();
      await page.locator('#lens-2-30').click();
      await expect(page.getByTestId('pin')).toBeVisible();
      // The pin takes room: its cell is brought into sight again.
      await page.getByTestId('lens-grid').press('End');
    },
  },
  {
    name: 'attention health',
    reach: async (page) => {
      await page.getByTestId('point').selectOption('attention.entropy');
      await page
        .getByTestId('head-grid')
        .getByRole('button', { name: /^L3, head 2/ })
        .click();
      await pinOn(page, 'health-map', 1, 20);
    },
  },
  {
    name: 'contributions',
    reach: async (page) => {
      await page.getByTestId('point').selectOption('mlp.contribution');
      await page.getByTestId('contributions').getByRole('button').nth(2).click();
      await pinOn(page, 'contribution-map', 2, 24);
    },
  },
  {
    name: 'updates',
    reach: async (page) => {
      await page.getByTestId('point').selectOption('Updates');
      await page.getByTestId('updates').getByRole('button', { name: 'weight norm' }).click();
      await page.getByTestId('updates').locator('tbody tr').nth(2).getByRole('button').click();
    },
  },
  {
    name: 'top tokens',
    reach: async (page) => {
      await page.getByTestId('point').selectOption('HiddenStates · top_tokens');
      await page.getByTestId('top-unit').selectOption('1');
    },
  },
  {
    name: 'text',
    reach: async (page) => {
      await page.getByTestId('tab-text').click();
      await page.getByTestId('tokens').getByRole('option').nth(17).click();
    },
  },
  {
    name: 'compare',
    reach: async (page) => {
      await page.getByTestId('tab-compare').click();
      await page.getByTestId('layer').selectOption('2');
      await page.getByTestId('step-B').fill('20');
      await page.getByTestId('step-B').press('Enter');
      await expect(page.getByRole('heading', { name: 'B, step 20: L2' })).toBeVisible(kPickWait);
    },
  },
  {
    name: 'the past',
    reach: async (page) => {
      await page.getByLabel('Shown step, of the steps in').fill('10');
      await expect(page.getByTestId('step-source')).toContainText('Fetched');
    },
  },
  { name: 'plan', reach: (page) => page.getByTestId('tab-plan').click() },
];

/** The page without what is no view: traffic, and what the pages happen to hold of the past. */
async function picture(page: Page): Promise<Buffer> {
  await page.mouse.move(2, 2);
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  // What was hovered or pressed before is painted anew as a whole.
  await page.setViewportSize({ width: 1200, height: 700 });
  await idle(page);
  await page.setViewportSize({ width: 1280, height: 720 });
  await idle(page);
  // A table that was sorted is laid out anew, too.
  await page.evaluate(() => {
    document.body.style.display = 'none';
    document.body.getBoundingClientRect();
    document.body.style.display = '';
  });
  await idle(page);
  // What came and how late is another number at every look; it is told once a second.
  if (await page.getByTestId('run-state').isVisible()) {
    await expect(page.getByText('Page keeps')).toBeVisible();
  }
  const traffic = ['Hub', 'Sending ranks'].map((name) => page.getByLabel(name, { exact: true }));
  const mask = [page.locator('footer'), page.locator('.facts'), ...traffic];
  return page.screenshot({ mask, animations: 'disabled' });
}

async function visit(context: BrowserContext, url: string): Promise<Page> {
  const page = await context.newPage();
  await page.goto(url);
  await expect(page.getByTestId('chip')).toHaveText('replay, paused');
  await expect.poll(() => page.evaluate(() => window.__tt?.app.series.all.length)).toBe(40);
  await idle(page);
  return page;
}

for (const { name, reach } of kViews) {
  test(`the link of ${name} shows the same pixels elsewhere`, async ({ browser, recorded }) => {
    const kOptions = {
      viewport: { width: 1280, height: 720 },
      colorScheme: 'dark',
      reducedMotion: 'reduce',
    } as const;
    const here = await browser.newContext({
      ...kOptions,
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    const page = await visit(here, recorded.url);
    await reach(page);
    await idle(page);
    await page.getByRole('button', { name: 'Copy link' }).click();
    await expect(page.getByTestId('message')).toHaveText('Link copied');
    const link = await page.evaluate(() => navigator.clipboard.readText());
    const there = await browser.newContext(kOptions);
    // Its reader prefers other curves.
    await there.addInitScript(() =>
      localStorage.setItem('tensor-tracer.preferences', '{"smoothing":0.3,"logX":true}'),
    );
    const other = await visit(there, link);
    if (name === 'compare') {
      await expect(other.getByRole('heading', { name: 'B, step 20: L2' })).toBeVisible(kPickWait);
      await expect(other.getByTestId('side-B')).toContainText('from history');
      await expect(other.getByLabel('Step of B', { exact: true })).toHaveValue('20');
    }
    const [first, second] = [await picture(page), await picture(other)];
    if (!first.equals(second)) {
      await writeFile(`test-results/link-${name}-here.png`, first);
      await writeFile(`test-results/link-${name}-there.png`, second);
    }
    // Chromium rounds the corner of a box now one way, now the other.
    expect(farthest(first, second)).toBeLessThanOrEqual(1);
    await here.close();
    await there.close();
  });
}
