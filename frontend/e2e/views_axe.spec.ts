import { expect, type Page } from '@playwright/test';
import { showView } from './all_views.ts';
import type { FakeHub } from './fake_hub.ts';
import { idle, open, seriousOf, test } from './support.ts';

// The views of the Tensors tab beyond one layer at one step, and the tab Prompts, by axe.

for (const colorScheme of ['dark', 'light'] as const) {
  test(`no serious finding of axe in these views, ${colorScheme}`, async ({ page, hub }) => {
    await page.emulateMedia({ colorScheme });
    await checkViews(page, hub);
  });
}

// Other files ask axe about the views that are not here.
const kOthers = [
  'pinned cell',
  'statistics as a map',
  'compare lens',
  'compare health',
  'compare contributions',
] as const;

for (const name of kOthers) {
  test(`no serious finding of axe in the view ${name}`, async ({ page, hub }) => {
    await showView(page, hub, name);
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme });
      await idle(page);
      expect(await seriousOf(page), colorScheme).toEqual([]);
    }
  });
}

async function checkViews(page: Page, hub: FakeHub): Promise<void> {
  hub.plan = {
    number: 1,
    entries: [
      { point: 'HiddenStates', compressor: { kind: 'tile', tiles: 64 } },
      { point: 'HiddenStates', compressor: { kind: 'projection', vectors: ['evil'] } },
      { point: 'HiddenStates', compressor: { kind: 'stats' } },
      { point: 'RawAttentionScore', tokens: [0, 16] },
      { point: 'InputTokens' },
    ],
  };
  await open(page, hub);
  const check = async (): Promise<void> => expect(await seriousOf(page)).toEqual([]);
  for (const name of ['all layers', 'over steps']) {
    await page.getByRole('button', { name, exact: true }).click();
    await idle(page);
    await check();
  }
  await page.getByTestId('point').selectOption('RawAttentionScore');
  await expect(page.getByTestId('head-maps')).toBeVisible();
  await check();
  await page.getByTestId('point').selectOption('HiddenStates · projection');
  await page.getByTestId('alarm-on-records').click();
  await expect(page.getByTestId('alarm-form')).toBeVisible();
  await check();
  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByTestId('point').selectOption('HiddenStates · stats');
  await expect(page.getByTestId('ridge')).toBeVisible();
  await check();
  // With what a prompt shows: live_prompts.spec.ts.
  await page.getByTestId('tab-prompts').click();
  await expect(page.getByTestId('prompt')).toBeVisible();
  await check();
}
