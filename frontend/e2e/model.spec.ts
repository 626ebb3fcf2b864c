import AxeBuilder from '@axe-core/playwright';
import { expect } from '@playwright/test';
import { entriesAsked, recordedNumbers } from './plan_support.ts';
import { advance } from './real_run.ts';
import { kFull, test } from './recorded.ts';
import { idle, kSmoke } from './support.ts';

// The map of the model: what each box tells, and where a click goes.

// The second row of `stats` comes after ten numbers and 48 bins.
const kRms = 59;

for (const colorScheme of ['dark', 'light'] as const) {
  test(
    `boxes have sizes and marks, and lead to their layer, ${colorScheme}`,
    kSmoke,
    async ({ page, recorded }) => {
      const { expected } = recorded;
      await page.emulateMedia({ colorScheme });
      await page.goto(recorded.at('tab=model'));
      await expect(page.getByTestId('model')).toBeVisible();
      await idle(page);
      const boxes = page.getByTestId('block');
      await expect(boxes).toHaveCount(6);
      // Of the head: FinalNorm in two forms, and Logits.
      for (const [box, entry, layer, name, of, traced] of [
        [0, 'embeddingStats', 0, 'Embedding', 'Embedding', 1],
        [3, 'stats', 3, 'Layer 3', 'HiddenStates', expected.entriesAt(3)],
        [5, 'normStats', 0, 'Head', 'FinalNorm', 3],
      ] as const) {
        const rms = expected.values(entry, layer, kFull)[kRms].toPrecision(3);
        await expect(boxes.nth(box)).toHaveAccessibleName(
          new RegExp(`^${name}, RMS ${rms} of ${of}, step ${kFull}: ${traced} traced`),
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
      await page.getByTestId('model').getByRole('button', { name: 'MLP1' }).nth(1).click();
      await expect(page.getByTestId('point')).toHaveValue('MLP1');
      await expect(page.getByTestId('layer')).toHaveValue('2');
      await page.getByTestId('tab-model').click();
      await boxes.nth(5).click();
      await expect(page.getByTestId('point')).toHaveValue('Logits');
    },
  );
}

test('boxes without a size are measured by one click, and an empty box leads to the plan', async ({
  page,
  run,
}) => {
  const mlp = { point: 'MLP1', compressor: { kind: 'tile', tiles: 4 } };
  await run.setPlan(mlp, { point: 'InputTokens' });
  await page.goto(run.at('tab=model'));
  const boxes = page.getByTestId('block');
  await expect(boxes.nth(1)).toHaveAccessibleName('Layer 1: 1 traced');
  await boxes.nth(0).click();
  await page.getByTestId('toast-action').click();
  await expect(page.getByTestId('plan-list')).toBeVisible();
  await page.getByTestId('tab-model').click();
  await page.getByTestId('trace-sizes').click();
  const added = ['Embedding', 'HiddenStates', 'FinalNorm'];
  expect((await entriesAsked(run, 2)).slice(2)).toEqual(
    added.map((point) => ({ point, every: 10, compressor: { kind: 'stats' } })),
  );
  await expect(page.getByTestId('trace-sizes')).toHaveCount(0);
  await advance(page, 10);
  const stats = await recordedNumbers(run, 'first=10&last=10&entry=3&layers=2');
  await expect(boxes.nth(2)).toHaveAccessibleName(
    new RegExp(`^Layer 2, RMS ${stats[kRms].toPrecision(3)} of HiddenStates, step 10`),
  );
});

test('a long name stays in its box', async ({ page, run }) => {
  await page.setViewportSize({ width: 1100, height: 700 });
  const point = 'embedding.word_embeddings.output';
  await run.setPlan({ point, prompts: 'probes', rows: 0, compressor: { kind: 'stats' } });
  await page.goto(run.at('tab=model'));
  const chip = page.getByTestId('model').getByRole('button', { name: point });
  const inner = await chip.boundingBox();
  const outer = await page.getByTestId('model').getByRole('listitem').first().boundingBox();
  expect(inner && outer && inner.x + inner.width).toBeLessThanOrEqual(
    outer ? outer.x + outer.width : 0,
  );
});
