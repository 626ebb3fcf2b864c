import { expect, test } from '@playwright/test';
import { idle, pixels } from './support.ts';

// A typed prompt against a real run of tensor-tracer; playwright.live.config.ts asks for TT_PAGE_URL.

const kPatience = { timeout: 60_000 };
const kText = 'def fibonacci(n):';

test('a prompt is typed, run, looked at, kept and removed', async ({ page }) => {
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  await page.goto(process.env.TT_PAGE_URL ?? '');
  await page.getByRole('tab', { name: 'Prompts' }).click();

  await test.step('a text longer than a sequence cannot be run', async () => {
    await page.getByTestId('prompt').fill('x'.repeat(257));
    await expect(page.getByTestId('prompt-tokens')).toContainText('257 of 256 tokens');
    await expect(page.getByTestId('run-prompt')).toBeDisabled();
  });

  await test.step('predictions, maps and attention of the prompt', async () => {
    await page.getByTestId('prompt').fill(kText);
    await page.getByTestId('run-prompt').click();
    await expect(page.getByTestId('prompt-result')).toContainText('17 tokens', kPatience);
    await expect(page.getByTestId('prompt-text-off').getByRole('button')).toHaveCount(17);
    await expect(page.getByTestId('prompt-best-off').getByRole('listitem')).toHaveCount(5);
    await expect(page.getByTestId('prompt-text-on')).toHaveCount(0);
    await idle(page);
    expect((await pixels(page.getByTestId('tile-map'))).colors).toBeGreaterThan(20);
    await page.getByTestId('prompt-point').selectOption('RawAttentionScore');
    await expect(page.getByTestId('attention-map')).toBeVisible(kPatience);
  });

  await test.step('it is kept and removed', async () => {
    await page.getByTestId('prompt-name').fill('fibonacci');
    await page.getByTestId('keep-prompt').click();
    await expect(page.getByTestId('prompt-notice')).toContainText('fibonacci is kept', kPatience);
    await expect(page.getByTestId('kept-prompts')).toContainText(kText);
    await page.getByRole('button', { name: 'Remove the prompts fibonacci' }).click();
    await expect(page.getByTestId('prompt-notice')).toContainText('is removed', kPatience);
    await expect(page.getByTestId('kept-prompts')).not.toContainText('fibonacci');
  });
  expect(complaints).toEqual([]);
});
