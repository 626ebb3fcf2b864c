import AxeBuilder from '@axe-core/playwright';
import { expect } from '@playwright/test';
import { statAt } from './fake_data.ts';
import { apply } from './interventions_support.ts';
import { idle, kSmoke, test, watch } from './support.ts';

// The map of the model: what each box tells, and where a click goes.

const kStats = { point: 'HiddenStates', compressor: { kind: 'stats' } };

for (const colorScheme of ['dark', 'light'] as const) {
  test(
    `boxes have sizes and marks, and lead to their layer, ${colorScheme}`,
    kSmoke,
    async ({ page, hub }) => {
      await page.emulateMedia({ colorScheme });
      watch(hub, { point: 'MLP1', layers: '2-3', compressor: { kind: 'tile', tiles: 32 } }, kStats);
      await page.goto(hub.url.replace('/#', '/?tab=interventions#'));
      await apply(page);
      await page.getByTestId('tab-model').click();
      await expect(page.getByTestId('model')).toBeVisible();
      await idle(page);
      const boxes = page.getByTestId('block');
      await expect(boxes).toHaveCount(6);
      const norm = statAt(3, hub.step, 5);
      await expect(boxes.nth(3)).toHaveAccessibleName(
        new RegExp(`^Layer 3, norm ${norm.toPrecision(3)}: 2 traced`),
      );
      await expect(boxes.nth(0)).toHaveAccessibleName('Embedding: not traced');
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
      await boxes.nth(0).click();
      await page.getByTestId('toast-action').click();
      await expect(page.getByTestId('plan-list')).toBeVisible();
    },
  );
}
