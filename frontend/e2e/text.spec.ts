import AxeBuilder from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';
import { entriesAsked, recordedNumbers } from './plan_support.ts';
import { advance as advanceRun, type TrailLine, visit } from './real_run.ts';
import { kTokens, test } from './recorded.ts';
import { advance, idle, kSmoke } from './support.ts';

async function openText(page: Page, { url }: { readonly url: string }, query = ''): Promise<void> {
  await page.goto(`${url}?tab=text${query}`);
  await expect(page.getByTestId('tokens')).toBeVisible();
  await idle(page);
}

test('the tokens of the batch, and what the model predicts after each', async ({
  page,
  recorded,
}) => {
  await openText(page, recorded);
  const tokens = page.getByTestId('tokens').getByRole('option');
  await expect(tokens).toHaveCount(kTokens);
  const text = await tokens.allInnerTexts();
  const { expected } = recorded;
  const places = Array.from({ length: kTokens }, (_, at) => at);
  expect(text.join('').replace(/␣/g, ' ').replace(/⏎/g, '\n')).toBe(expected.letter(30, ...places));
  // What each token is followed by comes with the best tokens.
  const target = (at: number): number => expected.softmax(30, at)[3];
  expect(target(4)).toBe(expected.token(30, 5));
  const right = places.filter((at) => expected.best(30, at, 0).id === target(at));
  const share = ((100 * right.length) / kTokens).toFixed(1);
  await expect(page.getByTestId('tally')).toContainText(`right ${share} %`);
  await expect(page.getByTestId('tally')).toContainText(`of ${kTokens}`);
  expect(right.length).toBeGreaterThan(0);
  await tokens.nth(right[0]).hover();
  await expect(page.getByTestId('verdict')).toContainText('is number 1, ');
  const rows = page.getByTestId('predictions').locator('tbody tr');
  await expect(rows).toHaveCount(5);
  const best = [0, 1, 2, 3, 4].map((rank) => expected.best(30, right[0], rank));
  await expect(rows.nth(1)).toContainText(String(best[1].id));
  await expect(rows.nth(1)).toContainText(best[1].value.toPrecision(4));
  await expect(rows.nth(0)).toContainText('✓');
  // Exact: the log-sum-exp over the whole vocabulary comes with the best tokens.
  const [logSumExp, , loss] = expected.softmax(30, right[0]);
  const percent = (100 * Math.exp(best[0].value - logSumExp)).toFixed(1);
  await expect(rows.nth(0)).toContainText(`${percent}\u00a0%`);
  await expect(page.getByTestId('verdict')).toContainText(
    `with probability ${percent}\u00a0% (loss ${loss.toPrecision(3)} nats)`,
  );
});

test('keys go from token to token, and the link remembers the one that is shown', async ({
  page,
  recorded,
}) => {
  await openText(page, recorded);
  const box = page.getByTestId('tokens');
  await box.focus();
  for (let i = 0; i < 3; i++) await page.keyboard.press('ArrowRight');
  await expect(page.getByRole('heading', { name: 'After position 3' })).toBeVisible();
  await page.keyboard.press('ArrowDown');
  const chosen = (): Promise<number> =>
    box.locator('[aria-selected="true"]').evaluate((each) => Number(each.dataset['col']));
  expect(await chosen()).toBeGreaterThan(5);
  await page.keyboard.press('ArrowUp');
  expect(await chosen()).toBeLessThan(8);
  await page.keyboard.press('End');
  expect(await chosen()).toBe(kTokens - 1);
  await idle(page);
  expect(new URL(page.url()).searchParams.get('token')).toBe(String(kTokens - 1));
  // The next step with predictions.
  await advance(page, recorded, 5);
  expect(await chosen()).toBe(kTokens - 1);
});

test('the text is there whatever the other views show', kSmoke, async ({ page, recorded }) => {
  await openText(page, recorded, '&maps=over&point=HiddenStates+·+stats');
  await expect(page.getByTestId('tokens').getByRole('option')).toHaveCount(kTokens);
});

test('without a topk entry the tab says so, and its button adds one', async ({ page, run }) => {
  await visit(page, run, 'tab=text', 'start');
  await advanceRun(page);
  await expect(page.getByTestId('tokens')).toBeVisible();
  await expect(page.getByTestId('text-lacks')).toContainText('does not trace the best next tokens');
  await expect(page.getByTestId('predictions')).toHaveCount(0);
  await page.screenshot({ path: 'test-results/text-lacks.png' });
  await page.getByTestId('text-add').click();
  await expect(page.getByTestId('text-lacks')).toHaveCount(0);
  const k = 10;
  const entries = await entriesAsked(run);
  expect(entries.at(-1)).toEqual({ point: 'Logits', compressor: { kind: 'topk', k } });
  expect(entries).toHaveLength(4);
  await advanceRun(page);
  const rows = page.getByTestId('predictions').locator('tbody tr');
  await expect(rows).toHaveCount(k);
  // By token: k numbers, then k ids, then what is true of all tokens of the vocabulary.
  const numbers = await recordedNumbers(run, 'first=2&last=2&entry=3');
  const [best, id, logSumExp] = [0, 1, 2].map((part) => numbers[part * k * kTokens]);
  await expect(rows.nth(0).locator('td').nth(2)).toHaveText(String(id));
  await expect(rows.nth(0)).toContainText(best.toPrecision(4));
  const percent = (100 * Math.exp(best - logSumExp)).toFixed(1);
  await expect(rows.nth(0)).toContainText(`${percent}\u00a0%`);
});

test('what follows the last token of a prompt is not known', async ({ page, run }) => {
  const ofPrompts = { prompts: 'probes', rows: 0 };
  const predictions = { point: 'Logits', ...ofPrompts, compressor: { kind: 'topk', k: 10 } };
  await run.setPlan(predictions, { point: 'InputTokens', ...ofPrompts });
  await visit(page, run, 'tab=text', 'start');
  await advanceRun(page, 10);
  const tokens = page.getByTestId('tokens').getByRole('option');
  await expect(tokens).toHaveCount('Once upon a time'.length);
  await tokens.last().hover();
  await expect(page.getByTestId('verdict')).toHaveText('The true next token is not known.');
});

test.describe('a run that continues its prompts', () => {
  test.use({ flags: ['--monitor-generate-interval', '10', '--monitor-max-new-tokens', '6'] });

  test('responses to all prompts, then to one over the steps, also for a later viewer', async ({
    page,
    run,
  }) => {
    const ofPrompts = { point: 'HiddenStates', prompts: 'probes', rows: 0, dtype: 'f32' };
    await run.setPlan({ point: 'InputTokens' }, { point: 'HiddenStates' }, ofPrompts);
    await visit(page, run, 'tab=text&point=HiddenStates', 'start');
    await expect(page.getByTestId('responses')).toHaveCount(0);
    await advanceRun(page, 20);
    const table = page.getByTestId('responses').locator('tbody tr');
    await expect(table).toHaveCount(2);
    await expect(table.nth(0)).toContainText('Once upon a time');
    let told: readonly TrailLine[] = [];
    await expect.poll(async () => (told = await run.trail('response')).length).toBe(4);
    const textOf = (step: number, prompt: number): string =>
      String(told.find((each) => each.step === step && each.detail.prompt === prompt)?.detail.text);
    const shown = page.getByTestId('responses').locator('code');
    expect(await shown.allTextContents()).toEqual([textOf(20, 0), textOf(20, 1)]);
    await page.screenshot({ path: 'test-results/text-responses.png' });
    await visit(page, run, 'tab=text&point=HiddenStates+·+probes&row=1', 'responses');
    await expect(table).toHaveCount(2);
    await expect(page.getByRole('heading', { name: 'Responses to prompt 1' })).toBeVisible();
    await expect(table.nth(0)).toContainText('step 20');
    expect(await shown.allTextContents()).toEqual([textOf(20, 1), textOf(10, 1)]);
  });
});

test('who may not change the plan is told why', async ({ page, run }) => {
  await run.stepAs('Ada');
  await openText(page, run);
  await expect(page.getByTestId('text-add')).toBeDisabled();
  await expect(page.getByTestId('text-lacks')).toContainText('Ada holds control.');
});

for (const colorScheme of ['dark', 'light'] as const) {
  test(`pictures and axe of the text, ${colorScheme}`, async ({ page, recorded }) => {
    test.slow();
    await page.emulateMedia({ colorScheme });
    await openText(page, recorded, '&token=20');
    await page.screenshot({ path: `test-results/text-${colorScheme}.png` });
    const { violations } = await new AxeBuilder({ page })
      .exclude('[data-testid="tokens"] [role="option"]:nth-child(n + 60)')
      .analyze();
    const serious = violations.filter(
      ({ impact }) => impact === 'serious' || impact === 'critical',
    );
    expect(serious.map(({ id, nodes }) => `${id} ${String(nodes[0]?.target[0])}`)).toEqual([]);
  });
}
