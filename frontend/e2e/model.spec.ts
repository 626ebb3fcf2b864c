import AxeBuilder from '@axe-core/playwright';
import { expect } from '@playwright/test';
import { apply } from './interventions_support.ts';
import { kStatsWidth } from './fake_data.ts';
import type { Entry } from './fake_tensors.ts';
import { idle, kSmoke, test, watch } from './support.ts';

// The map of the model: what each box tells, and where a click goes.

const kRms = kStatsWidth + 1;

function statsOf(point: string): Entry {
  return { point, compressor: { kind: 'stats' } };
}

for (const colorScheme of ['dark', 'light'] as const) {
  test(
    `boxes have sizes and marks, and lead to their layer, ${colorScheme}`,
    kSmoke,
    async ({ page, hub }) => {
      await page.emulateMedia({ colorScheme });
      const kMlp = { point: 'MLP1', layers: '2-3', compressor: { kind: 'tile', tiles: 32 } };
      watch(hub, kMlp, ...['HiddenStates', 'Embedding', 'FinalNorm'].map(statsOf));
      await page.goto(hub.url.replace('/#', '/?tab=interventions#'));
      await apply(page);
      await page.getByTestId('tab-model').click();
      await expect(page.getByTestId('model')).toBeVisible();
      await idle(page);
      const boxes = page.getByTestId('block');
      await expect(boxes).toHaveCount(6);
      for (const [box, layer, name, of, traced] of [
        [0, 0, 'Embedding', 'Embedding', 1],
        [3, 3, 'Layer 3', 'HiddenStates', 2],
        [5, 0, 'Head', 'FinalNorm', 1],
      ] as const) {
        const rms = hub.stat(layer, hub.step, kRms).toPrecision(3);
        await expect(boxes.nth(box)).toHaveAccessibleName(
          new RegExp(`^${name}, RMS ${rms} of ${of}, step ${hub.step}: ${traced} traced`),
        );
      }
      await expect(page.getByTestId('block-program')).not.toHaveCount(0);
      const { violations } = await new AxeBuilder({ page }).analyze();
      expect(
        violations.flatMap(({ id, nodes }) =>
          nodes.map(({ target }) => `${id} ${String(target[0])}`),
        ),
      ).toEqual([]);
      await page.screenshot({ path: `test-results/model-${colorScheme}.png` });
      await boxes.nth(3).click();
      await expect(page.getByTestId('tab-tensors')).toHaveAttribute('aria-current', 'page');
      await expect(page.getByTestId('layer')).toHaveValue('3');
      await page.getByTestId('tab-model').click();
      await page.getByTestId('model').getByRole('button', { name: 'MLP1' }).first().click();
      await expect(page.getByTestId('point')).toHaveValue('MLP1');
      await expect(page.getByTestId('layer')).toHaveValue('2');
      await page.getByTestId('tab-model').click();
      await boxes.nth(5).click();
      await expect(page.getByTestId('point')).toHaveValue('FinalNorm · stats');
    },
  );
}

test('boxes without a size are measured by one click, and an empty box leads to the plan', async ({
  page,
  hub,
}) => {
  watch(hub, { point: 'MLP1', compressor: { kind: 'tile', tiles: 32 } });
  await page.goto(hub.url.replace('/#', '/?tab=model#'));
  const boxes = page.getByTestId('block');
  await expect(boxes.nth(1)).toHaveAccessibleName('Layer 1: 1 traced');
  await boxes.nth(0).click();
  await expect(page.getByTestId('toast-action')).toBeVisible();
  await page.getByTestId('trace-sizes').click();
  await expect
    .poll(() => hub.plan.entries.slice(2))
    .toEqual([
      { point: 'HiddenStates', every: 10, compressor: { kind: 'stats' } },
      { point: 'FinalNorm', every: 10, compressor: { kind: 'stats' } },
    ]);
  await expect(page.getByTestId('trace-sizes')).toHaveCount(0);
  hub.step += 9;
  hub.advance();
  const rms = hub.stat(2, 130, kRms).toPrecision(3);
  await expect(boxes.nth(2)).toHaveAccessibleName(
    new RegExp(`^Layer 2, RMS ${rms} of HiddenStates, step 130`),
  );
  await page.getByTestId('toast-action').click();
  await expect(page.getByTestId('plan-list')).toBeVisible();
});
