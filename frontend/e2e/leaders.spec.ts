import { expect, type Locator, type Page } from '@playwright/test';
import { type Leaders, test } from './leaders.ts';
import type { Json } from './remote.ts';
import { idle, kSmoke } from './support.ts';

// What no small run does: two pipeline stages, records that get lost, phases and messages of rank 0.

const kPatience = { timeout: 5000 };

async function openOverview(page: Page, leaders: Leaders): Promise<Locator> {
  await page.goto(leaders.at('tab=overview'));
  await idle(page);
  return page.getByLabel('Sending ranks').locator('dd');
}

test(
  'each rank that sends has a line: its step, its delay, its lost records',
  kSmoke,
  async ({ page, leaders }) => {
    await leaders.step(1, 0, 1);
    const ranks = await openOverview(page, leaders);
    await expect(ranks).toHaveText(['step 1', 'step 1'], kPatience);
    await leaders.step(2, 0, 1);
    await expect(ranks).toHaveText([/^step 2 · up to date/, /^step 2 · up to date/], kPatience);
    for (const step of [3, 4, 5, 6]) await leaders.step(step, 0);
    await expect(ranks).toHaveText(
      [/^step 6 · up to date · \d+.ms$/, /^step 2 · 4 behind/],
      kPatience,
    );
    await expect(ranks.nth(1)).toHaveClass(/warn/);
    await leaders.step(7, 0, 1);
    // Of steps 3 to 6, two layers of two points.
    await expect(ranks.nth(1)).toHaveText(/^step 7 · up to date · \d+.ms · 16 lost$/, kPatience);
    await expect(ranks.nth(0)).not.toContainText('lost');
  },
);

test('a stage without a leader is missing until it has one', async ({ page, leaders }) => {
  await leaders.step(1, 0, 1);
  const ranks = await openOverview(page, leaders);
  await expect(ranks).toHaveCount(2, kPatience);
  await leaders.leave(1);
  await expect(ranks.first()).toHaveText('missing · rank 8');
  await expect(ranks.first()).toHaveClass(/warn/);
  await leaders.join(1);
  await expect(ranks).toHaveCount(2);
  await expect(ranks.first()).not.toContainText('missing');
});

test('states of the run show in the chip', async ({ page, leaders }) => {
  await leaders.step(1, 0, 1);
  await openOverview(page, leaders);
  const chip = page.getByTestId('chip');
  await expect(chip).toHaveText('live');
  await leaders.notify('state', { phase: 'evaluating', step: 1 });
  await expect(chip).toHaveText('live · evaluating');
  await leaders.notify('state', { phase: 'training', step: 11 });
  await expect(chip).toHaveText('lagging 10 steps');
  await leaders.notify('state', { phase: 'finished', step: 11 });
  await expect(chip).toHaveText('ended at step 11');
});

test('a run whose trainer is gone is lost', async ({ page, leaders }) => {
  await leaders.step(1, 0, 1);
  await openOverview(page, leaders);
  await leaders.leave(0);
  await expect(page.getByTestId('chip')).toHaveText('trainer lost at step 1');
});

test('drops and messages of the run are shown', async ({ page, leaders }) => {
  await leaders.step(1, 0, 1);
  await openOverview(page, leaders);
  await expect(page.getByTestId('drops')).toHaveText('no drops');
  await leaders.notify('dropped', { records: 2, where: 'trainer' });
  await expect(page.getByTestId('drops')).toHaveText('dropped: 0 here, 2 at the trainer');
  await leaders.notify('log', { level: 'warning', message: 'the disk is nearly full' });
  await expect(page.getByTestId('message')).toHaveText('the disk is nearly full');
});

test('a step that nobody keeps is shown as a gap', async ({ page, leaders }) => {
  await leaders.step(1);
  await leaders.step(2);
  await leaders.step(3, 0, 1);
  await page.goto(leaders.at('tab=tensors&step=2'));
  await expect(page.getByTestId('no-maps')).toContainText('No data of HiddenStates at step 2');
  await expect(page.getByTestId('step-source')).toHaveText('no data of this step');
  const follow = { name: 'Follow the newest step' };
  await page.getByTestId('no-maps').getByRole('button', follow).click();
  await expect(page.getByTestId('shown-step')).toHaveText('step 3');
  await expect(page.getByTestId('step-source')).toHaveText('');
});

test('for a step without data the last step before it is shown', async ({ page, leaders }) => {
  await leaders.step(1, 0, 1);
  await leaders.step(2);
  await leaders.step(3, 0, 1);
  await page.goto(leaders.at('tab=tensors&step=2'));
  await expect(page.getByTestId('shown-step')).toHaveText('step 1');
  await expect(page.getByTestId('step-source')).toContainText('Fetched from history');
});

/** What a trainer answers to `plan.check`, of two entries. */
const estimateOf = (bytes: number): Json => ({
  entries: [
    { bytes, records: 1 },
    { bytes: 1, records: 1 },
  ],
  bytes_per_step: bytes + 1,
});

test('an answer to an older draft is dropped', kSmoke, async ({ page, leaders }) => {
  await page.goto(leaders.at('tab=plan'));
  const { id: first } = await leaders.nextRequest();
  await leaders.answer({ id: first, result: estimateOf(100) });
  await expect(page.getByTestId('entry-bytes-1')).toHaveText('100\u00a0B');
  const layers = page.getByLabel('Layers of entry 1');
  await layers.fill('1-2');
  const { id: older, method } = await leaders.nextRequest();
  expect(method).toBe('plan.check');
  await layers.fill('1-3');
  const { id: newer } = await leaders.nextRequest();
  await leaders.answer({ id: newer, result: estimateOf(300) });
  await expect(page.getByTestId('entry-bytes-1')).toHaveText('300\u00a0B');
  const message = 'layers 1-2 are wrong';
  await leaders.answer({ id: older, error: { code: 'invalid_argument', message } });
  // What comes after the answer shows that the page has the answer.
  await leaders.notify('log', { level: 'warning', message: 'later' });
  await expect(page.getByTestId('message')).toHaveText('later');
  await idle(page);
  await expect(page.getByTestId('entry-bytes-1')).toHaveText('300\u00a0B');
  await expect(page.getByTestId('plan-outcome').locator('.error')).toHaveCount(0);
});

test('why a draft is not checked is told, and it is checked once it can be', async ({
  page,
  leaders,
}) => {
  await leaders.leave(0);
  await page.goto(leaders.at('tab=plan'));
  await expect(page.getByTestId('plan-hindrance')).toHaveText(
    'Not checked: no trainer is connected',
  );
  await leaders.join(0);
  const { id } = await leaders.nextRequest();
  await leaders.answer({ id, result: estimateOf(100) });
  await expect(page.getByTestId('plan-bytes')).toHaveText('101\u00a0B', { timeout: 8000 });
  await expect(page.getByTestId('plan-hindrance')).toHaveCount(0);
});
