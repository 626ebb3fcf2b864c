import AxeBuilder from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';
import type { FakeHub } from './fake_hub.ts';
import { idle, open, test } from './support.ts';

// The views of the Tensors tab beyond one layer at one step, and the tab Prompts, by axe.

for (const colorScheme of ['dark', 'light'] as const) {
  test(`no serious finding of axe in these views, ${colorScheme}`, async ({ page, hub }) => {
    await page.emulateMedia({ colorScheme });
    await checkViews(page, hub);
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
  const check = async (): Promise<void> => {
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations.filter(
      ({ impact }) => impact === 'serious' || impact === 'critical',
    );
    expect(
      serious.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${String(node.target[0])}`)),
    ).toEqual([]);
  };
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
