import { expect, type Page } from '@playwright/test';
import { showRecorded } from './all_views.ts';
import { openAfter } from './real_run.ts';
import { test } from './recorded.ts';
import { idle, open, seriousOf } from './support.ts';

// The views of the Tensors tab beyond one layer at one step, and the tab Prompts, by axe.

const check = async (page: Page): Promise<void> => expect(await seriousOf(page)).toEqual([]);

for (const colorScheme of ['dark', 'light'] as const) {
  test(`no serious finding of axe in these views, ${colorScheme}`, async ({ page, recorded }) => {
    await page.emulateMedia({ colorScheme });
    await open(page, recorded);
    for (const name of ['all layers', 'over steps']) {
      await page.getByRole('button', { name, exact: true }).click();
      await idle(page);
      await check(page);
    }
    await page.getByTestId('point').selectOption('RawAttentionScore');
    await expect(page.getByTestId('head-maps')).toBeVisible();
    await check(page);
    await page.getByTestId('point').selectOption('HiddenStates · stats');
    await expect(page.getByTestId('ridge')).toBeVisible();
    await check(page);
  });

  test(`no serious finding of axe in what controls the run, ${colorScheme}`, async ({
    page,
    run,
  }) => {
    await page.emulateMedia({ colorScheme });
    const compressor = { kind: 'projection', vectors: ['evil'] };
    await run.setPlan({ point: 'HiddenStates', compressor }, { point: 'InputTokens' });
    await openAfter(page, run, 5);
    await expect(page.getByTestId('projection-map')).toBeVisible();
    await page.getByTestId('alarm-on-records').click();
    await expect(page.getByTestId('alarm-form')).toBeVisible();
    await check(page);
    await page.getByRole('button', { name: 'Close', exact: true }).click();
    // With what a prompt shows: live_prompts.spec.ts.
    await page.getByTestId('tab-prompts').click();
    await expect(page.getByTestId('prompt')).toBeVisible();
    await check(page);
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
  test(`no serious finding of axe in the view ${name}`, async ({ page, recorded }) => {
    await showRecorded(page, recorded, name);
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme });
      await idle(page);
      expect(await seriousOf(page), colorScheme).toEqual([]);
    }
  });
}
