import { expect, type Page, test } from '@playwright/test';
import { outputOf, torchrun, whileTraining } from './live_attached.ts';
import { apply } from './interventions_support.ts';
import { complaintsOf, pauseTheOtherRun } from './live_support.ts';
import { idle } from './support.ts';

// examples/attach/train_ddp.py trains a GPT-2 on two ranks. A program that is typed in the page changes the loss at
// the step that the page names, and until it is reverted. The same script without the tracer, with and without a hook
// of PyTorch that does the same, has the same losses, bit for bit.

const kPatience = { timeout: 120_000 };
const kFactor = 8;
const kProgram = `layers[2].output = ${kFactor} * layers[2].output`;

type Losses = readonly number[];

async function newestStep(page: Page): Promise<number> {
  return (await page.evaluate(() => window.__tt?.app.newestStep)) ?? 0;
}

/** Lets the held run do some steps, one after the other. */
async function stepOnce(page: Page, times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    const next = (await newestStep(page)) + 1;
    await page.getByTestId('step-once').click();
    await expect.poll(() => newestStep(page), kPatience).toBe(next);
    await expect(page.getByTestId('chip')).toHaveText(`paused after step ${next}`, kPatience);
  }
}

/** The loss of every step, from 1, as the page got it. */
async function lossesOf(page: Page, last: number): Promise<Losses> {
  const told = await page.evaluate(() => window.__tt?.app.series.all ?? []);
  expect(told.map(({ step }) => step)).toEqual(Array.from({ length: last }, (_, i) => i + 1));
  return told.map(({ loss }) => loss ?? NaN);
}

async function trainedAlone(steps: number, ...hook: readonly (string | number)[]): Promise<Losses> {
  const script = 'frontend/e2e/live_attached_plain.py';
  const said = await outputOf(torchrun(script, 'train_ddp.py', ...[steps, ...hook].map(String)));
  return JSON.parse(said.trim().split('\n').at(-1) ?? '') as Losses;
}

/** The steps with the program: its first one, as the page names it, and its last one. */
async function steer(page: Page): Promise<readonly [number, number]> {
  await page.getByTestId('tab-interventions').click();
  await apply(page, kProgram, 'louder');
  const program = page.getByTestId('program-louder');
  const [, named] = /in force from step (\d+) on/.exec(await program.innerText()) ?? [];
  const first = Number(named);
  expect(first).toBe((await newestStep(page)) + 1);
  await stepOnce(page, 3);
  await expect(program).toContainText(`applied at step ${first} on 2/2 ranks`, kPatience);
  await idle(page);
  await page.screenshot({ path: test.info().outputPath('steered.png') });
  await page.getByRole('button', { name: 'Revert louder' }).click();
  await expect(program).toHaveCount(0, kPatience);
  return [first, await newestStep(page)];
}

test('a typed program changes the loss of an example at the step that the page names', async ({
  page,
  context,
}) => {
  test.setTimeout(600_000);
  await pauseTheOtherRun(await context.newPage());
  await page.setViewportSize({ width: 1440, height: 900 });
  const complaints = complaintsOf(page);
  const runDir = test.info().outputPath('run');
  const options = ['--steps', '100000', '--port', '0', '--run-dir', runDir];
  const training = torchrun('examples/attach/train_ddp.py', ...options);
  let [first, last]: readonly number[] = [0, 0];
  let steered: Losses = [];
  await whileTraining(training, runDir, async (url) => {
    await page.bringToFront();
    await page.goto(url);
    await expect.poll(() => newestStep(page), kPatience).toBeGreaterThan(8);
    await page.getByTestId('pause').click();
    await expect(page.getByTestId('chip')).toHaveAttribute('data-word', 'paused', kPatience);
    [first, last] = await steer(page);
    await stepOnce(page, 3);
    steered = await lossesOf(page, last + 3);
  });
  expect(complaints).toEqual([]);

  const plain = await trainedAlone(steered.length);
  expect(plain[first - 2]).toBeLessThan(plain[0] - 1);
  expect(steered.slice(0, first - 1)).toEqual(plain.slice(0, first - 1));
  for (let step = first; step <= steered.length; step++) {
    expect(steered[step - 1], `step ${step}`).not.toBe(plain[step - 1]);
  }
  const hook = ['transformer.h.1', kFactor, first, last] as const;
  expect(steered).toEqual(await trainedAlone(steered.length, ...hook));
});
