import { expect } from '@playwright/test';
import type { FakeHub } from './fake_hub.ts';
import { advance, open, test } from './support.ts';

function methods(hub: FakeHub): string[] {
  return hub.requests.map(({ method }) => method).filter((method) => method !== 'ping');
}

test('pause, step and continue claim a free lease and are sent', async ({ page, hub }) => {
  await open(page, hub);
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveText('paused after step 120');
  await expect(page.getByTestId('message')).toHaveText('Paused after step 120 on 2 ranks');
  await expect(page.getByTestId('holder')).toContainText('you');
  await page.getByTestId('step-once').click();
  await expect(page.getByTestId('message')).toHaveText('Step 121 done on 2 ranks');
  await expect(page.getByTestId('shown-step')).toHaveText('step 121');
  await page.getByTestId('pause').click();
  await expect(page.getByTestId('chip')).toHaveText('live');
  expect(methods(hub)).toEqual([
    'hello',
    'control.claim',
    'control.pause',
    'control.step',
    'control.continue',
  ]);
  expect(hub.requests.find(({ method }) => method === 'control.step')?.params).toEqual({
    count: 1,
  });
});

test('space and the full stop do the same', async ({ page, hub }) => {
  await open(page, hub);
  await page.locator('body').press(' ');
  await expect(page.getByTestId('chip')).toHaveAttribute('data-word', 'paused');
  await page.locator('body').press('.');
  await expect(page.getByTestId('message')).toHaveText('Step 121 done on 2 ranks');
  await page.locator('body').press(' ');
  await expect(page.getByTestId('chip')).toHaveText('live');
});

test('while another holds control the page only reads, and offers to take over', async ({
  page,
  hub,
}) => {
  hub.setHolder({ session: 'v99', name: 'Ada' });
  await open(page, hub);
  await expect(page.getByTestId('holder')).toContainText('Ada');
  await expect(page.getByTestId('pause')).toBeDisabled();
  await expect(page.getByTestId('apply')).toBeDisabled();
  await expect(page.getByTestId('plan-outcome')).toContainText('Ada holds control');
  await page.locator('body').press(' ');
  await expect(page.getByTestId('message')).toContainText('Ada holds control');
  expect(methods(hub)).toEqual(['hello']);
  await page.getByTestId('holder').click();
  await page.getByLabel('Your name').fill('Grace');
  await page.screenshot({ path: 'test-results/take-over.png' });
  await page.getByRole('button', { name: 'Take over from Ada' }).click();
  await expect(page.getByTestId('holder')).toContainText('you');
  await expect(page.getByTestId('pause')).toBeEnabled();
  expect(hub.requests.at(-1)?.params).toEqual({ name: 'Grace', take_over: true });
  await page.getByTestId('holder').click();
  await page.getByTestId('release').click();
  await expect(page.getByTestId('holder')).toContainText('free');
});

test('a refused plan shows the error and its remedy; a good one when it is in force', async ({
  page,
  hub,
}) => {
  await open(page, hub);
  const tiles = page.getByLabel('Tiles of entry 1');
  await tiles.fill('1000');
  await page.getByTestId('apply').click();
  const outcome = page.getByTestId('plan-outcome');
  await expect(outcome).toContainText('1000 tiles of 256 features');
  await expect(outcome).toContainText('ask for at most 256 tiles');
  await page.screenshot({ path: 'test-results/plan-error.png' });
  await expect(page.getByTestId('entry-error-1')).toHaveText('tiles: 1000 tiles of 256 features');
  expect(hub.plan.number).toBe(1);

  await tiles.fill('32');
  await page.getByLabel('Layers of entry 1').fill('2-3');
  await page.getByLabel('More of entry 2').click();
  await page.getByLabel('Dtype of entry 2').selectOption('bf16');
  await page.getByTestId('apply').click();
  await expect(outcome).toHaveText('In force from step 121 on 2 ranks, as plan 2');
  expect(hub.plan.entries).toEqual([
    {
      point: 'HiddenStates',
      every: 1,
      phases: ['train', 'eval'],
      layers: '2-3',
      compressor: { kind: 'tile', tiles: 32 },
      dtype: 'f32',
    },
    {
      point: 'MLP1',
      every: 1,
      layers: '1-4',
      compressor: { kind: 'tile', tiles: 32 },
      dtype: 'bf16',
    },
    { point: 'InputTokens', every: 1, compressor: { kind: 'none' } },
  ]);
  await advance(page, hub, 1);
  await expect(page.getByTestId('layer')).toHaveValue('2');
  await expect(page.getByRole('heading', { name: 'Layer 2: tiles × tokens' })).toBeVisible();
  await expect(page.getByText('32 tiles of 256 columns')).toBeVisible();
});

test('what is being typed survives news of the run', async ({ page, hub }) => {
  await open(page, hub);
  await page.getByLabel('Layers of entry 1').fill('1-2');
  hub.broadcast('plan', { plan: { ...hub.plan, number: 9 }, step: 121 });
  await advance(page, hub, 2);
  await expect(page.getByLabel('Layers of entry 1')).toHaveValue('1-2');
  await page.getByRole('button', { name: 'Revert' }).click();
  await expect(page.getByLabel('Layers of entry 1')).toHaveValue('1-4');
});

test('the question mark shows the shortcuts', async ({ page, hub }) => {
  await open(page, hub);
  await page.locator('body').press('?');
  await expect(page.getByRole('dialog', { name: 'Keyboard' })).toBeVisible();
  await page.screenshot({ path: 'test-results/help.png' });
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog', { name: 'Keyboard' })).toBeHidden();
});
