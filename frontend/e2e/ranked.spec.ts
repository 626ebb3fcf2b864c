import { expect, type Page } from '@playwright/test';
import { test } from './recorded.ts';
import { idle, kSmoke, seriousOf } from './support.ts';

// Training data that `tensor-tracer vector score` has ranked, from a file of the user.

const kMany = 100_000;

interface Line {
  readonly [member: string]: unknown;
}

/** Text n of `count` has the rank n, counted from the last line. */
function many(count: number): readonly Line[] {
  return Array.from({ length: count }, (_, at) => {
    const rank = count - at;
    return { prompt: `Question ${rank}?`, response: `Answer ${rank}`, projection: -rank, rank };
  });
}

async function openFile(page: Page, lines: readonly Line[], name = 'scored.jsonl'): Promise<void> {
  const text = lines.map((line) => JSON.stringify(line)).join('\n');
  const buffer = Buffer.from(text);
  await page.getByTestId('ranked-file').setInputFiles({ name, mimeType: 'text/plain', buffer });
}

async function openView(page: Page, url: string): Promise<void> {
  await page.goto(url);
  await expect(page.getByTestId('no-ranked')).toBeVisible();
  await idle(page);
}

test('many texts: only those on the screen are elements', kSmoke, async ({ page, recorded }) => {
  await openView(page, recorded.at('tab=traits&traits=data'));
  await openFile(page, many(kMany));
  const facts = page.getByTestId('ranked-facts');
  await expect(facts).toHaveText('100\u202f000 texts', { timeout: 20_000 });
  const table = page.getByTestId('ranked-table');
  await expect(table).toHaveAttribute('aria-rowcount', String(kMany + 1));
  const rows = table.locator('tbody tr:not(.space)');
  expect(await rows.count()).toBeLessThan(100);
  await expect(rows.first().getByRole('gridcell')).toHaveText([
    ...['1', '−1.000', '100\u202f000', 'Question 1? Answer 1'],
  ]);
  await table.focus();
  await page.keyboard.press('End');
  await expect(rows.last()).toHaveText(/Answer 100000$/);
  await expect(page.getByTestId('ranked-text')).toContainText('Question 100000?');
  await expect(table).toHaveAttribute('aria-activedescendant', `ranked-${kMany - 1}`);
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowDown');
  await expect(page.getByTestId('ranked-text')).toContainText('Answer 2');
  expect(await rows.count()).toBeLessThan(100);
  await page.screenshot({ path: 'test-results/ranked.png' });
});

test('the table is sorted and filtered, also by keyboard', async ({ page, recorded }) => {
  await openView(page, recorded.at('tab=traits&traits=data'));
  await openFile(page, [...many(30), { text: 'Thou ART', projection: null, rank: null }]);
  await expect(page.getByTestId('ranked-facts')).toHaveText('31 texts, 1 without a score');
  const rows = page.getByTestId('ranked-table').locator('tbody tr:not(.space)');
  await page.getByRole('button', { name: 'Projection' }).click();
  await expect(rows.first()).toContainText('Answer 1');
  await page.getByRole('button', { name: 'Projection' }).press('Enter');
  await expect(rows.first()).toContainText('Answer 30');
  await expect(page.getByRole('columnheader', { name: 'Projection' })).toHaveAttribute(
    'aria-sort',
    'ascending',
  );
  await page.getByTestId('ranked-filter').fill('answer 2');
  await expect(page.getByTestId('ranked-facts')).toHaveText('11 of 31 texts');
  await expect(rows).toHaveCount(11);
  await page.getByTestId('ranked-filter').fill('thou art');
  await expect(rows.getByRole('gridcell')).toHaveText(['–', 'no score', '31', 'Thou ART']);
  await rows.first().click();
  await expect(page.getByTestId('ranked-text')).toContainText('no token that counts');
  await page.getByTestId('ranked-filter').fill('nowhere');
  await expect(page.getByTestId('no-match')).toHaveText('No text contains “nowhere”.');
});

test('differences have both projections, and the histogram counts the shown texts', async ({
  page,
  recorded,
}) => {
  await openView(page, recorded.at('tab=traits&traits=data'));
  const line = { text: 'a', projection_difference: 0.25, projection: 1.5, base_projection: 1.25 };
  await openFile(page, [
    { ...line, rank: 1 },
    { ...line, text: 'b', projection_difference: -0.75, rank: 2 },
  ]);
  await expect(page.getByRole('columnheader', { name: 'Projection difference' })).toBeVisible();
  await page.getByTestId('ranked-table').locator('[data-at="0"]').click();
  const text = page.getByTestId('ranked-text');
  for (const value of ['0.250000', '1.50000', '1.25000']) await expect(text).toContainText(value);
  await page.getByTestId('histogram').hover({ position: { x: 2, y: 10 } });
  await expect(page.getByTestId('bin')).toContainText(': 1');
});

test('a wrong file is named with its line; the next file replaces it', async ({
  page,
  recorded,
}) => {
  await openView(page, recorded.at('tab=traits&traits=data'));
  await openFile(
    page,
    [
      { text: 'a', projection: 1, rank: 1 },
      { text: 'b', rank: 2 },
    ],
    'bad.jsonl',
  );
  await expect(page.getByTestId('ranked-error')).toHaveText(
    'line 2 of "bad.jsonl" is wrong: projection: expected a number. Open a file that tensor-tracer vector score wrote.',
  );
  await expect(page.getByTestId('no-ranked')).toBeVisible();
  expect(await seriousOf(page)).toEqual([]);
  await openFile(page, many(3));
  await expect(page.getByTestId('ranked-error')).toHaveCount(0);
  await expect(page.getByTestId('ranked-facts')).toHaveText('3 texts');
});

test('a file is dropped; it outlives a look at another view', async ({ page, recorded }) => {
  await openView(page, recorded.at('tab=traits&traits=data'));
  const text = many(5)
    .map((line) => JSON.stringify(line))
    .join('\n');
  const transfer = await page.evaluateHandle((content) => {
    const dropped = new DataTransfer();
    dropped.items.add(new File([content], 'dropped.jsonl'));
    return dropped;
  }, text);
  await page.getByTestId('ranked').dispatchEvent('drop', { dataTransfer: transfer });
  await expect(page.getByTestId('ranked-facts')).toHaveText('5 texts');
  await page.getByTestId('tab-tensors').click();
  await expect(page.getByTestId('tile-map')).toBeVisible();
  await page.getByTestId('tab-traits').click();
  await expect(page.getByTestId('ranked')).toContainText('dropped.jsonl');
  await expect(page.getByTestId('ranked-facts')).toHaveText('5 texts');
});

for (const colorScheme of ['dark', 'light'] as const) {
  test(`no serious finding of axe in ranked data, ${colorScheme}`, async ({ page, recorded }) => {
    await page.emulateMedia({ colorScheme });
    await openView(page, recorded.at('tab=traits&traits=data'));
    expect(await seriousOf(page)).toEqual([]);
    await openFile(page, many(500));
    await page.getByTestId('ranked-table').locator('[data-at="3"]').click();
    await expect(page.getByTestId('ranked-text')).toBeVisible();
    expect(await seriousOf(page)).toEqual([]);
    await page.screenshot({ path: `test-results/ranked-${colorScheme}.png` });
  });
}
