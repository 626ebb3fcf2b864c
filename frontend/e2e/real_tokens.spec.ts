import { expect } from '@playwright/test';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { advance, kTokens, test, visit } from './real_run.ts';
import { idle, kPython, seriousOf, spotOf } from './support.ts';

// A run with a vocabulary of 150,000: every view shows the texts of the tokens, which are those of pip's tokenizers.

const kScript = fileURLToPath(new URL('large_vocabulary.py', import.meta.url));
const kFolder = mkdtempSync(join(tmpdir(), 'tt-vocabulary-'));
const kFile = join(kFolder, 'tokenizer.json');
const kQueries = 16;

interface Tokens {
  readonly ids: readonly number[];
  readonly texts: readonly string[];
}

function tokensOf(text: string): Tokens {
  const options = { encoding: 'utf8', maxBuffer: 2 ** 26 } as const;
  return JSON.parse(execFileSync(kPython, [kScript, kFolder, text], options)) as Tokens;
}

/** As the page shows a token. */
const shown = (text: string): string => text.replace(/ /g, '␣').replace(/\n/g, '⏎');

// The run starts before the test, and needs the tokenizer.
tokensOf(kScript);

test.use({ flags: ['--tokenizer', kFile] });
test.afterAll(() => rmSync(kFolder, { recursive: true }));

test('all views show the tokens of a vocabulary of 150,000', async ({ page, run }) => {
  await run.setPlan(
    { point: 'HiddenStates', rows: 0 },
    { point: 'RawAttentionScore', rows: 0, layers: '1', tokens: [0, kQueries] },
    { point: 'Logits', rows: 0, compressor: { kind: 'topk', k: 5 } },
    { point: 'InputTokens' },
  );
  await visit(page, run, 'tab=text', 'start');
  await advance(page, 2);
  const tokens = page.getByTestId('tokens').getByRole('option');
  await expect(tokens).toHaveCount(kTokens);
  const texts = (await tokens.allInnerTexts()).map((text) => text.replace(/\n/g, ''));
  const all = tokensOf(join(run.folder, '..', 'text.txt'));
  const wanted = all.texts.map(shown);
  const begins = wanted.map((_, at) => at).filter((at) => at % kTokens === 0);
  const begin = begins.find((at) => texts.every((text, i) => shown(text) === wanted[at + i]));
  if (begin === undefined) throw new Error(`the text does not have ${texts.join('|')}`);
  expect(texts.filter((text) => text.length > 1).length).toBeGreaterThan(kTokens / 2);

  // The best next tokens.
  await tokens.nth(3).hover();
  const numbers = (
    JSON.parse(readFileSync(kFile, 'utf8')) as { model: { vocab: Record<string, number> } }
  ).model.vocab;
  const names = new Map(Object.entries(numbers).map(([name, id]) => [id, name]));
  const rows = page.getByTestId('predictions').locator('tbody tr');
  await expect(rows).toHaveCount(5);
  for (const cells of await rows.evaluateAll((all) =>
    all.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.innerText)),
  )) {
    const name = names.get(Number(cells[2])) ?? '';
    expect(cells[1].replace('✓', '').trim()).toBe(name.replace(/Ġ/g, '␣'));
  }

  // A map of layers, and attention.
  const mark = page.getByTestId('tip').locator('mark');
  await page.getByTestId('tab-tensors').click();
  await page.getByTestId('point').selectOption('HiddenStates');
  await idle(page);
  const tiles = page.getByTestId('tile-map');
  await tiles.hover({ position: await spotOf(tiles, 2, 5, 64, kTokens) });
  await expect(mark).toHaveText(wanted[begin + 5]);
  await page.getByTestId('point').selectOption('RawAttentionScore');
  await idle(page);
  const attention = page.getByTestId('attention-map');
  await attention.hover({ position: await spotOf(attention, 12, 9, kQueries, kTokens) });
  await expect(mark).toHaveText(wanted[begin + 9]);
  await expect(page.getByTestId('tip')).toContainText(`position 12 ${wanted[begin + 12]}`);
  expect(await seriousOf(page)).toEqual([]);
  await page.screenshot({ path: 'test-results/real-tokens.png' });
});
